// The script that Ingot runs as in `ingot bench --ops`.

import { serve } from '../channel.ts'
import { createOpServer } from './ingot-server.ts'

serve(createOpServer().handlers)
