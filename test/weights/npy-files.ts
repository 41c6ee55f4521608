// Files that numpy.save wrote (NumPy 2.4.6), in base64: what they are, their type and shape as tensors, their values row by row.

import type { ElementType } from '../../src/base/element.ts'

type NpyFile = [what: string, dtype: ElementType, shape: number[], values: number[], base64: string[]]

export const NPY_FILES: NpyFile[] = [
  [
    'f2',
    'f16',
    [3],
    [1.5, -2.0, 65504.0],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGYyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDMsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAPgDA/3s=',
    ],
  ],
  [
    'f4',
    'f32',
    [2, 3],
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.5],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAIA/AAAAQAAAQEAAAIBAAACgQAAA0EA=',
    ],
  ],
  [
    'f8',
    'f64',
    [2],
    [0.1, -1e300],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGY4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqamZmZmZm5P5x1AIg85Df+',
    ],
  ],
  [
    'i1',
    'i8',
    [2],
    [-128, 127],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnfGkxJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqAfw==',
    ],
  ],
  [
    'i2',
    'i32',
    [2],
    [-32768, 32767],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGkyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAgP9/',
    ],
  ],
  [
    'i4',
    'i32',
    [2],
    [-2147483648, 7],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGk0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAACABwAAAA==',
    ],
  ],
  [
    'i8',
    'i64',
    [2],
    [-9007199254740991, 9007199254740991],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGk4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoBAAAAAADg/////////x8A',
    ],
  ],
  [
    'u1',
    'u8',
    [2],
    [0, 255],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnfHUxJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoA/w==',
    ],
  ],
  [
    'u2',
    'u32',
    [2],
    [0, 65535],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPHUyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAP//',
    ],
  ],
  [
    'u4',
    'u32',
    [2],
    [0, 4294967295],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPHU0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAA/////w==',
    ],
  ],
  [
    'u8',
    'i64',
    [2],
    [0, 9007199254740991],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPHU4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAAP///////x8A',
    ],
  ],
  [
    'b1',
    'bool',
    [2],
    [1, 0],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnfGIxJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoBAA==',
    ],
  ],
  [
    'a scalar',
    'f32',
    [],
    [7.25],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKCksIH0gICAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAOhA',
    ],
  ],
  [
    'big-endian f4',
    'f32',
    [2],
    [1.0, -2.5],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPmY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAo/gAAAwCAAAA==',
    ],
  ],
  [
    'big-endian i2',
    'i32',
    [2],
    [-2, 258],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPmkyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr//gEC',
    ],
  ],
  [
    'big-endian f8, columns first',
    'f64',
    [2, 3],
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPmY4JywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUnOiAoMiwgMyksIH0gICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAAEAIAAAAAAAAP/AAAAAAAABAEAAAAAAAAEAAAAAAAAAAQBQAAAAAAAA=',
    ],
  ],
  [
    'columns first, three axes',
    'i32',
    [2, 3, 4],
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGkyJywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUnOiAoMiwgMywgNCksIH0gICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAwABAAQAAgAFAABAA0ABQARAAkAFQACAA4ABgASAAoAFgADAA8ABwATAAsAFwA=',
    ],
  ],
  [
    'columns first, bytes',
    'u8',
    [3, 2],
    [0, 1, 2, 3, 4, 5],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnfHUxJywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUnOiAoMywgMiksIH0gICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAgQBAwU=',
    ],
  ],
  [
    'columns first, f4',
    'f32',
    [3, 2],
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUnOiAoMywgMiksIH0gICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAQAAAgEAAAIA/AABAQAAAoEA=',
    ],
  ],
  [
    'version 2.0',
    'i32',
    [2],
    [3, 4],
    [
      'k05VTVBZAgB0AAAAeydkZXNjcic6ICc8aTQnLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMiwpLCB9ICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoDAAAABAAAAA==',
    ],
  ],
  [
    'version 3.0',
    'i32',
    [2],
    [3, 4],
    [
      'k05VTVBZAwB0AAAAeydkZXNjcic6ICc8aTQnLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMiwpLCB9ICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoDAAAABAAAAA==',
    ],
  ],
]

/** What NumPy has and tensors have not. */
export const FOREIGN_NPY_FILES: [what: string, base64: string[]][] = [
  [
    'complex numbers',
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGM4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAIA/AAAAQA==',
    ],
  ],
  [
    'text',
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPFUzJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAphAAAAYgAAAGMAAAA=',
    ],
  ],
  [
    'dates',
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPE04W0RdJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsKSwgfSAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIApWRwAAAAAAAA==',
    ],
  ],
  [
    'long doubles',
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGYxNicsICdmb3J0cmFuX29yZGVyJzogRmFsc2UsICdzaGFwZSc6ICgxLCksIH0gICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAgP8/l+ryfwAA',
    ],
  ],
  [
    'records',
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiBbKCd4JywgJzxpNCcpLCAoJ3knLCAnPGY0JyldLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMSwpLCB9',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoBAAAAAAAAQA==',
    ],
  ],
  [
    'unsigned integers past 2^63',
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPHU4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAgA==',
    ],
  ],
  [
    'no elements',
    [
      'k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDAsIDMpLCB9ICAgICAgICAgICAgICAgICAgICAg',
      'ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAo=',
    ],
  ],
]
