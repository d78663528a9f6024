import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Config, ConfigError } from '../app/config.ts'
import { findSecrets, keysSource } from '../app/secrets-file.ts'
import { openDatabase } from '../db/database.ts'
import { migrate, refuseNewerDatabase } from '../db/migrate.ts'
import { checkEncryptionKeys, EncryptionKeysError } from '../payments/encryption/encryption-keys.ts'
import { type Rotation, rotateSecrets } from '../payments/encryption/seal-again.ts'
import { hasTables } from '../repositories/encryption/sealed-values.ts'
import { readSettings } from './read-settings.ts'
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
  const secrets = config.databaseUrl === undefined ? await findSecrets(config.dataDir) : undefined
  const source = keysSource(config, secrets)
  const keys = config.encryptionKeys ?? secrets?.encryptionKeys ?? []
  const present = lost.filter((id) => keys.some((key) => key.id === id))
  if (keys.length === 0 || present.length > 0) {
    const what =
      present.length > 0 ? `has ${present.join(', ')}, which is not lost then` : 'is empty'
    throw new ConfigError([{ variable: 'ENCRYPTION_KEYS', message: `${what} (from ${source})` }])
  }
  const database = await openDatabase(
    config.databaseUrl === undefined
      ? { dataDir: config.dataDir }
      : { databaseUrl: config.databaseUrl },
  )
  try {
    await refuseNewerDatabase(database.db)
    const troubles = (await checkEncryptionKeys(database.db, keys)).filter(
      ({ id }) => !lost.includes(id),
    )
    if (troubles.length > 0) throw new EncryptionKeysError(troubles, source)
    if (await hasTables(database.db)) await migrate(database, { anyway: config.migrateAnyway })
    return await rotateSecrets({ database, now: () => new Date(), sleep }, keys, lost)
  } finally {
    await database.close()
  }
}

function describe(rotation: Rotation): string[] {
  const { first, renewed, givenUp, givenUpFlows, unreadable, unreadableFlows, stillUsed } = rotation
  const { givenUpPeople, unreadablePeople } = rotation
  const lines = [`${renewed} values were encrypted again with ${first}.`]
  if (givenUp > 0)
    lines.push(`${givenUp} clients lost their connection with the key: they must connect again.`)
  if (givenUpFlows.length > 0) {
    lines.push(
      `The access of ${givenUpFlows.join(', ')} was lost with the key: these destinations need a new refresh token in their flow files.`,
    )
  }
  if (givenUpPeople.length > 0) {
    lines.push(
      `The codes of ${givenUpPeople.join(', ')} were lost with the key: an administrator must reset these people.`,
    )
  }
  if (unreadablePeople.length > 0) {
    lines.push(
      `No key opens the codes of: ${unreadablePeople.join(', ')}. An administrator must reset these people.`,
    )
  }
  if (unreadable.length > 0) {
    lines.push(
      `No key opens what is stored of: ${unreadable.join(', ')}. These clients must log out and connect again.`,
    )
  }
  if (unreadableFlows.length > 0) {
    lines.push(
      `No key opens the access of: ${unreadableFlows.join(', ')}. These destinations need a new refresh token in their flow files.`,
    )
  }
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
