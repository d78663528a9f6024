import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { licenceProblems, lockfileProblems, productionOnly } from './supply.ts'

const root = new URL('..', import.meta.url)
const read = (file: string) => JSON.parse(readFileSync(new URL(file, root), 'utf8'))
const say = (text: string) => process.stdout.write(`${text}\n`)

function report(problems: readonly string[], good: string): void {
  say(problems.length === 0 ? good : problems.join('\n'))
  if (problems.length > 0) process.exitCode = 1
}

/** Writes the bill of materials of the service as it is deployed, by npm's own command. */
function writeSbom(file: string): void {
  const { manifest, lock } = productionOnly(read('package.json'), read('package-lock.json'))
  const scratch = mkdtempSync(join(tmpdir(), 'tillbridge-sbom-'))
  // npm calls the product what its folder is called.
  const folder = join(scratch, 'tillbridge')
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock))
  const options = ['--sbom-format=cyclonedx', '--sbom-type=application']
  const npm = process.env.npm_execpath
  const [command, ...first] = npm === undefined ? ['npm'] : [process.execPath, npm]
  const bill = execFileSync(
    command,
    [...first, 'sbom', ...options, '--package-lock-only', '--offline', '--loglevel=error'],
    { cwd: folder, maxBuffer: 64 * 1024 * 1024 },
  )
  rmSync(scratch, { recursive: true })
  writeFileSync(file, bill)
  say(`${file}: ${JSON.parse(bill.toString()).components.length} components`)
}

/** Known weaknesses of the packages of the service. Not every registry answers that. */
function reportAdvisories(): void {
  const { stdout } = spawnSync('npm', ['audit', '--omit=dev', '--json'], {
    cwd: fileURLToPath(root),
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  const found = JSON.parse(stdout || '{}') as Audit
  if (found.auditReportVersion === undefined) {
    say('SKIPPED: npm audit, because the registry of this machine does not answer it')
    return
  }
  const bad = Object.values(found.vulnerabilities).filter(({ severity }) =>
    ['high', 'critical'].includes(severity),
  )
  report(
    bad.map(({ name, severity }) => `${name}: ${severity}; see npm audit`),
    'advisories: none of high or critical severity',
  )
}

type Audit = {
  auditReportVersion?: number
  vulnerabilities: Record<string, { name: string; severity: string }>
}

/** A figure to follow; with the name of an operation only that one, and its files. */
async function reportPaths(named: string | undefined): Promise<void> {
  // The other tasks need no service.
  const { countDelivery, countOperations, countPoll } = await import('./operations.ts')
  const server = process.env.TEST_DATABASE_URL
  const isAsked = (name: string) => named === undefined || named === name
  const isOfFlows = named === 'delivery' || named === 'poll'
  const counted = isOfFlows ? [] : await countOperations(named)
  if (isAsked('delivery')) counted.push(['delivery', await countDelivery()])
  if (server && isAsked('poll')) counted.push(['poll', await countPoll(server)])
  else if (isAsked('poll'))
    say('TEST_DATABASE_URL is not set: a poll, which reads a table there, is not counted')
  for (const [name, { files, lines }] of counted) {
    say(`a ${name} passes through ${files.length} files, ${lines} lines`)
    if (name === named) say(files.map((path) => `  ${path}`).join('\n'))
  }
}

/** Measured figures with a little room. Other databases of the server must be quiet, since they share the log. */
const mostOfSale = { walBytes: 12_500, rows: 12 }

/** A figure that must not grow: the log and the rows of a sale are what its server works for. */
async function reportWrites(): Promise<void> {
  const server = process.env.TEST_DATABASE_URL
  if (!server)
    throw new Error('TEST_DATABASE_URL is not set: the figures are those of a PostgreSQL server')
  const { countSaleWrites } = await import('./writes.ts')
  const { walBytes, inserted, updated, hot, tables } = await countSaleWrites(server)
  for (const [table, counts] of Object.entries(tables)) {
    say(`  ${table}: ${counts.inserted} inserted, ${counts.updated} updated (${counts.hot} HOT)`)
  }
  const rows = inserted + updated
  const figures = `${Math.round(walBytes)} bytes of log, ${inserted.toFixed(1)} rows inserted, ${updated.toFixed(1)} updated (${hot.toFixed(1)} HOT)`
  const isMore = walBytes > mostOfSale.walBytes || rows > mostOfSale.rows
  report(isMore ? [`a sale writes more than it may: ${figures}`] : [], `a sale writes ${figures}`)
}

/** Long sentences and the passive in pages for users; words that have a standard term there, in messages and in the code. */
async function reportWords(): Promise<void> {
  const { checkCode, checkMessages, checkSpanish, checkWords, passiveShare } = await import(
    './words.ts'
  )
  const folder = fileURLToPath(root)
  const found = checkWords(folder)
  const share = `${(100 * passiveShare(found)).toFixed(1)} % of the sentences in the passive`
  const problems = [...found, ...checkSpanish(folder)].flatMap(({ file, tooLong, bannedWords }) => [
    ...tooLong.map((one) => `${file}: too long: ${one}`),
    ...bannedWords.map((one) => `${file}: ${one}`),
  ])
  report(
    [...problems, ...checkMessages(folder), ...checkCode(folder)],
    `words: ${found.length} files, ${share}`,
  )
}

/** Writes the generated pages of docs/reference. */
async function writeReferences(): Promise<void> {
  const { referencePages } = await import('./references/pages.ts')
  const { closeKeptDatabases } = await import('../test/support/worker-database.ts')
  for (const [name, text] of Object.entries(await referencePages()))
    writeFileSync(new URL(`docs/reference/${name}`, root), text)
  await closeKeptDatabases()
}

/** Writes src/db/tables.ts from an embedded database with the migrations of this checkout. */
async function writeTableTypes(): Promise<void> {
  const { tableTypes, tableTypesFile } = await import('./table-types/generate.ts')
  const { borrowDatabase, closeKeptDatabases } = await import('../test/support/worker-database.ts')
  const database = await borrowDatabase()
  writeFileSync(new URL(tableTypesFile, root), await tableTypes(database.db))
  await database.close()
  await closeKeptDatabases()
}

/** Writes the types of clients/typescript from the document of the payment API. */
async function writeClientTypes(): Promise<void> {
  const { clientTypes, clientTypesFile } = await import('./client-types.ts')
  const { startTestService } = await import('../test/support/service.ts')
  const { closeKeptDatabases } = await import('../test/support/worker-database.ts')
  const service = await startTestService()
  const { payload } = await service.app.inject('/openapi.json')
  writeFileSync(new URL(clientTypesFile, root), await clientTypes(JSON.parse(payload)))
  await service.stop()
  await closeKeptDatabases()
}

const usage =
  'usage: node checks/main.ts licences | lockfile | advisories | sbom [file] | paths [operation] | writes | words | references | table-types | client-types\n'
const help = `${usage}
Each is a script of package.json: npm run check:licences, check:lockfile, check:advisories, sbom, check:paths, check:writes, check:words, docs:references, db:types, client:types. CONTRIBUTING.md says what they check.

exit codes:
  0  nothing is wrong
  1  each line names a problem
  2  the command line is wrong

example:
  npm run check:paths -- charge
`
const countedOperations = ['charge', 'read', 'refund', 'webhook', 'delivery', 'poll']
const given = process.argv.slice(2)
const [task, named, ...more] = given
const isWrong =
  more.length > 0 ||
  given.some((word) => word.startsWith('-')) ||
  (named !== undefined && task !== 'sbom' && task !== 'paths') ||
  (named !== undefined && task === 'paths' && !countedOperations.includes(named))
if (given.includes('--help') || given.includes('-h')) process.stdout.write(help)
else if (isWrong) refuse()
else await check()

function refuse(): void {
  process.stderr.write(usage)
  process.exitCode = 2
}

async function check(): Promise<void> {
  switch (task) {
    case 'licences':
      report(
        licenceProblems(read('package-lock.json')),
        'licences: all packages of the service are under allowed ones',
      )
      break
    case 'lockfile':
      report(
        lockfileProblems(read('package-lock.json')),
        'lockfile: each package by its SHA-512, no address named',
      )
      break
    case 'advisories':
      reportAdvisories()
      break
    case 'sbom':
      writeSbom(named ?? 'sbom.cdx.json')
      break
    case 'paths':
      await reportPaths(named)
      break
    case 'writes':
      await reportWrites()
      break
    case 'words':
      await reportWords()
      break
    case 'references':
      await writeReferences()
      break
    case 'client-types':
      await writeClientTypes()
      break
    case 'table-types':
      await writeTableTypes()
      break
    default:
      refuse()
  }
}
