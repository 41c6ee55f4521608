// The script that Ingot runs as in a bench: handles the requests of its IPC channel until that closes.

import { serve } from './channel.ts'
import { createIngotServer } from './ingot-server.ts'

serve(createIngotServer().handlers)
