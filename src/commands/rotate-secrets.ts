import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Config, ConfigError } from '../app/config.ts'
import { withDatabase } from '../backup/embedded-database.ts'
import { migrate, refuseNewerDatabase } from '../db/migrate.ts'
import { requireFittingKeys } from '../payments/encryption/check-encryption-keys.ts'
import { type Rotation, rotateSecrets } from '../payments/encryption/rotate-encryption-keys.ts'
import { hasTables } from '../repositories/encryption/encrypted-values.ts'
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
    if (await hasTables(database.db)) await migrate(database)
    return await rotateSecrets({ database, now: () => new Date(), sleep }, keys, lost)
  })
}

function describe({ first, renewed, givenUp, unreadable, stillUsed }: Rotation): string[] {
  const lines = [`${renewed} values were encrypted again with ${first}.`]
  const { length: disconnected } = givenUp.clients
  const about = (names: readonly string[], textOf: (list: string) => string) => {
    if (names.length > 0) lines.push(textOf(names.join(', ')))
  }
  about(
    givenUp.clients,
    () => `${disconnected} clients lost their connection with the key: they must connect again.`,
  )
  about(
    givenUp.flows,
    (list) =>
      `The access of ${list} was lost with the key: these destinations need a new refresh token in their flow files.`,
  )
  about(
    givenUp.people,
    (list) =>
      `The codes of ${list} were lost with the key: an administrator must reset these people.`,
  )
  about(
    unreadable.people,
    (list) => `No key opens the codes of: ${list}. An administrator must reset these people.`,
  )
  about(
    unreadable.clients,
    (list) =>
      `No key opens what is stored of: ${list}. These clients must log out and connect again.`,
  )
  about(
    unreadable.flows,
    (list) =>
      `No key opens the access of: ${list}. These destinations need a new refresh token in their flow files.`,
  )
  if (stillUsed.length > 0) {
    lines.push(
      `Still in use: ${stillUsed.join(', ')}. Restart every process with ${first} first in ENCRYPTION_KEYS, then run this again.`,
    )
  } else {
    lines.push(
      `Nothing needs the other keys any more, the audit log included: ${first} may stand alone in ENCRYPTION_KEYS as soon as every process runs with it as the first.`,
    )
  }
  return lines
}

await runCommand(help, async () => {
  const { lost = [] } = parseArgs({ options: { lost: { type: 'string', multiple: true } } }).values
  const rotation = await rotate(readSettings(), lost)
  for (const line of describe(rotation)) say(line)
  return rotation.stillUsed.length === 0 ? 0 : 1
})
