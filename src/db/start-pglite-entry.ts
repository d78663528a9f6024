import { PGlite } from '@electric-sql/pglite'
import { compileOnce } from './pglite-wasm-memory.ts'

// A separate process that start-pglite.ts starts with a folder: it creates an empty embedded database there and ends.
// It exits without its parent.
process.on('disconnect', () => process.exit(1))

compileOnce()
const pglite = await PGlite.create(process.argv[2] as string)
await pglite.close()
process.exit()
