import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'
import './limit-heap-growth.ts'

// The entry point of the process. Half of a start is compiling modules, so the compiled code is cached beside the
// packages, where only a user who may change the code may write. Without write access a start takes longer.
enableCompileCache(
  fileURLToPath(new URL('../../node_modules/.cache/tillbridge-compiled', import.meta.url)),
)
await import('./main.ts')
