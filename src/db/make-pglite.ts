import { PGlite } from '@electric-sql/pglite'
import { compileOnce } from './small-parser.ts'

// A separate process that new-pglite.ts starts with a folder: it makes an empty embedded database in it and ends. When
// its parent is gone, the result is not needed.
process.on('disconnect', () => process.exit(1))

compileOnce()
const pglite = await PGlite.create(process.argv[2] as string)
await pglite.close()
process.exit()
