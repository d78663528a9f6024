import { settingsSchema } from '../app/config-schema.ts'
import { ownSecrets } from '../app/secrets-file.ts'
import { checkFlows } from '../sync/definition/check.ts'

/** `npm run flows:check [folder]`: says what is wrong with flow files; needs no database and starts nothing. */
const [folder, ...others] = process.argv.slice(2)
if (others.length > 0 || folder?.startsWith('-')) {
  process.stderr.write('usage: npm run flows:check [folder]\n')
  process.exitCode = 2
} else {
  const dataDir = settingsSchema.shape.DATA_DIR.parse(process.env.DATA_DIR?.trim() || undefined)
  const { lines, isGood } = await checkFlows(process.env, folder, ownSecrets(dataDir))
  process.stdout.write(`${lines.join('\n')}\n`)
  process.exitCode = isGood ? 0 : 1
}
