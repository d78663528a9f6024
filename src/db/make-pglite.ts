import { PGlite } from '@electric-sql/pglite'
import { compileOnce } from './small-parser.ts'

// A process of its own, which new-pglite.ts starts with a folder: makes an empty embedded database in it and ends.
// When whoever started it is gone nobody will use what it makes.
process.on('disconnect', () => process.exit(1))

compileOnce()
const pglite = await PGlite.create(process.argv[2] as string)
await pglite.close()
process.exit()
