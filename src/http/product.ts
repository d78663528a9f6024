import { readFileSync } from 'node:fs'
import { z } from 'zod'

const manifest = z
  .object({ name: z.string(), version: z.string(), license: z.string() })
  .parse(JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')))

/** Version and licence as package.json has them. */
export const product = Object.freeze({ version: manifest.version, license: manifest.license })
