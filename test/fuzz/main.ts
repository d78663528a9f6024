import {
  type CommandHelp,
  readName,
  readOptions,
  readWholeNumber,
} from '../../src/commands/run-command.ts'
import type { Database } from '../../src/db/database.ts'
import type { ListenerName } from './fuzz-testbed.ts'

const help: CommandHelp = {
  usage: 'npm run fuzz [-- options]',
  about:
    'Sends generated requests of every kind of caller to both listeners, and compares every answer with the served documents.',
  options: [
    ['--requests N', 'for each listener; 20000 without it'],
    ['--seed N', 'repeats a run'],
    ['--listener payment|control', 'only this one'],
  ],
  exitCodes: [
    [0, 'nothing was found'],
    [1, 'findings; a line shows each and how to repeat it'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run fuzz -- --requests 20000 --seed 1 --listener payment',
}

const say = (line: string) => void process.stdout.write(`${line}\n`)
const listeners: readonly ListenerName[] = ['payment', 'control']

const values = readOptions(help, {
  requests: { type: 'string', default: '20000' },
  seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  listener: { type: 'string' },
})
const requests = readWholeNumber('requests', values.requests, 1)
const seed = readWholeNumber('seed', values.seed)
const listener = readName('listener', values.listener, listeners)
const chosen = listener === undefined ? listeners : [listener]
// The service is loaded once the options are known to be right.
const { closeKeptDatabases } = await import('../support/worker-database.ts')
process.exitCode = await run()
await closeKeptDatabases()

async function run(): Promise<number> {
  const serverUrl = process.env.TEST_DATABASE_URL
  if (!serverUrl) return fuzz()
  const { openDatabase } = await import('../../src/db/open-database.ts')
  const { cloneTemplate, createPostgresTemplate, dropDatabase, urlOf } = await import(
    '../support/postgres-template.ts'
  )
  const template = await createPostgresTemplate(serverUrl)
  const name = await cloneTemplate(serverUrl, template.name)
  const database = await openDatabase({ databaseUrl: urlOf(serverUrl, name) })
  try {
    return await fuzz(database)
  } finally {
    await database.close()
    await dropDatabase(serverUrl, name)
    await template.remove()
  }
}

async function fuzz(database?: Database): Promise<number> {
  const { describe, runCampaign } = await import('./campaign.ts')
  const { openTestbed } = await import('./fuzz-testbed.ts')
  const testbed = await openTestbed(database)
  let found = 0
  try {
    for (const listener of chosen) {
      const startedAt = performance.now()
      const campaign = await runCampaign(testbed, listener, {
        requests,
        seed,
        onProgress: (done) => say(`${listener}: ${done} requests`),
      })
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
      for (const [operation, counts] of [...campaign.statuses].sort()) {
        const shown = [...counts]
          .sort(([a], [b]) => a - b)
          .map(([status, count]) => `${status}: ${count}`)
        say(`  ${operation.padEnd(48)} ${shown.join('  ')}`)
      }
      for (const finding of campaign.findings) say(`! ${describe(finding)}`)
      say(
        `${listener}: ${campaign.requests} requests in ${seconds} s, seed ${seed}, ${campaign.disconnected} disconnected, ` +
          `${campaign.findings.length} findings`,
      )
      if (campaign.findings.length > 0) {
        say(`again: npm run fuzz -- --listener ${listener} --requests ${requests} --seed ${seed}`)
      }
      found += campaign.findings.length
    }
  } finally {
    await testbed.stop()
  }
  return found === 0 ? 0 : 1
}
