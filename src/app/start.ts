import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'
import './small-heap.ts'

// The entry of the process. Reading and compiling its modules is half of a start, so what was compiled is kept: beside the
// packages, where nobody may write who may not write the code itself. Where that is nobody, a start takes longer.
enableCompileCache(
  fileURLToPath(new URL('../../node_modules/.cache/tillbridge-compiled', import.meta.url)),
)
await import('./main.ts')
