import { parseArgs } from 'node:util'
import { type Config, ConfigError } from '../app/config.ts'
import { withDatabase } from '../backup/embedded-database.ts'
import { migrate, refuseNewerDatabase } from '../db/migrate.ts'
import { requireFittingKeys } from '../payments/encryption/check-encryption-keys.ts'
import { type Rotation, rotateSecrets } from '../payments/encryption/rotate-encryption-keys.ts'
import {
  type EncryptedUse,
  listEncryptedColumns,
} from '../repositories/encryption/encrypted-values.ts'
import { databaseOf, readKeys, readSettings } from './read-settings.ts'
import { type CommandHelp, runCommand, say } from './run-command.ts'

const help: CommandHelp = {
  usage: 'npm run secrets:rotate [-- --lost=ID ...]',
  about:
    'Encrypts all stored secrets again with the first key of ENCRYPTION_KEYS. On PostgreSQL the service may run; with the embedded database stop it first.',
  options: [['--lost=ID', 'goes on without this key, which is lost; once for each key']],
  exitCodes: [
    [0, 'the other keys are no longer needed'],
    [1, 'other keys are still needed, or nothing was changed; the message says which'],
    [2, 'the command line is wrong'],
  ],
  example: 'ENCRYPTION_KEYS=k2:<new>,k1:<old> npm run secrets:rotate',
}

async function rotate(config: Config, lost: readonly string[]): Promise<Rotation> {
  const { keys, source } = await readKeys(config)
  const present = lost.filter((id) => keys.some((key) => key.id === id))
  if (keys.length === 0 || present.length > 0) {
    const what =
      present.length > 0 ? `has ${present.join(', ')}, which is not lost then` : 'is empty'
    throw new ConfigError([{ variable: 'ENCRYPTION_KEYS', message: `${what} (from ${source})` }])
  }
  return withDatabase(databaseOf(config), async (database) => {
    await refuseNewerDatabase(database.db)
    await requireFittingKeys(database.db, { keys, source, lost })
    if ((await listEncryptedColumns(database.db)).length > 0) await migrate(database)
    return await rotateSecrets({ database, now: () => new Date() }, keys, lost)
  })
}

/** What those must do whose values are gone. */
const nextStep: Record<EncryptedUse, string> = {
  'tokens of clients': 'these clients must connect again',
  'logins under way': 'these logins begin again',
  'tokens of destinations of flows': 'these need a new refresh token in their flow files',
  'codes of people': 'an administrator must reset these people',
  'secrets of endpoints': 'give the endpoints of these clients new secrets, then resume them',
  'the audit log': 'what its entries so far say cannot be checked any more',
}

function describe({ first, renewed, givenUp, unreadable, left }: Rotation): string[] {
  const lines = [`${renewed} values were encrypted again with ${first}.`]
  for (const [what, owners] of [
    ['Lost with the key', givenUp],
    ['No key decrypts', unreadable],
  ] as const) {
    for (const use of new Set(owners.map((one) => one.use))) {
      const names = new Set(owners.filter((one) => one.use === use).map(({ owner }) => owner))
      lines.push(`${what}: ${use} (${[...names].toSorted().join(', ')}); ${nextStep[use]}.`)
    }
  }
  for (const { key, use, values } of left) lines.push(`Still under ${key}: ${values}, ${use}.`)
  lines.push(
    left.length > 0
      ? `Restart every process with ${first} first in ENCRYPTION_KEYS, then run this again.`
      : `Nothing needs the other keys any more: ${first} may stand alone in ENCRYPTION_KEYS as soon as every process runs with it as the first.`,
  )
  return lines
}

await runCommand(help, async () => {
  const { lost = [] } = parseArgs({ options: { lost: { type: 'string', multiple: true } } }).values
  const rotation = await rotate(readSettings(), lost)
  for (const line of describe(rotation)) say(line)
  return rotation.left.length === 0 ? 0 : 1
})
