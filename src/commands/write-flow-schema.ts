import { mkdirSync, writeFileSync } from 'node:fs'
import { flowJsonSchema } from '../sync/definition/json-schema.ts'

/** `npm run flows:schema`: writes the schema of flow files that editors read. */
const folder = new URL('../../schema/', import.meta.url)
mkdirSync(folder, { recursive: true })
writeFileSync(
  new URL('flow.schema.json', folder),
  `${JSON.stringify(flowJsonSchema(), undefined, 2)}\n`,
)
