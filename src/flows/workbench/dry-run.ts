import type { Reason } from '../../texts/reason.ts'
import type { Model } from '../api/api-model.ts'
import type { DestinationContext } from '../destinations/destination-context.ts'
import { openFlow } from '../engine/open-flow.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { type FileStart, groupedRecords } from '../item/group-rows.ts'
import type { LoadedFlow } from '../loading/load-flow-files.ts'
import { maskSecrets, secretsIn } from '../net/mask-secrets.ts'
import { watchFields } from '../poll/missing-fields.ts'
import type { SourceContext } from '../sources/source-context.ts'
import { SourceError, type SourceRow } from '../types.ts'
import {
  type DryRunDeliveries,
  type DryRunDelivery,
  openDryRunDeliveries,
} from './dry-run-deliveries.ts'
import type { DryRunResponse } from './workbench-schemas.ts'

export type DryRunDeps = Omit<DestinationContext, 'flow' | 'agent'> &
  Omit<SourceContext, 'flow' | 'now' | 'grants' | 'payments'> & { feeds: SourceContext['payments'] }

type Answer = Model<typeof DryRunResponse>

/** One record of the source and its result. An intentional exclusion is `skipped`, an invalid record has a `problem`. */
type DryRunRecord = Pick<Answer['records'][number], 'record' | 'pk'> & {
  problem: Reason | null
  skipped: Reason | null
  deliveries: DryRunDelivery[]
}

/** `cutOff`: why the source was not read completely. */
export type DryRun = Pick<Answer, 'rowsRead' | 'recordsRead' | 'cutOff'> & {
  /** Warnings of the source. */
  warnings: Reason[]
  records: DryRunRecord[]
}

const dryRunLimits = { records: 10, seconds: 20 }
/** For one record, body or request. Larger values are left out. */
const mostShownCharacters = 16_384
const mostWarnings = 20

/**
 * Reads the first records of a flow's source and shows what its destinations would get. The flow need not be saved. `isCount` reads
 * on, only to count.
 * It writes nothing and calls no destination. Secrets that a source repeats are masked.
 * @throws SourceError if the source cannot be read, errors of the definition, and the reason of `signal`.
 */
export async function dryRun(
  loaded: LoadedFlow,
  { isCount, ...deps }: DryRunDeps & { isCount: boolean },
  signal: AbortSignal,
): Promise<DryRun> {
  const runtime = openFlow(loaded, { ...deps, payments: deps.feeds })
  let deliveries: DryRunDeliveries | undefined
  try {
    deliveries = await openDryRunDeliveries(loaded.flow, deps)
    const timeout = AbortSignal.timeout(dryRunLimits.seconds * 1_000)
    const ends = { signal: AbortSignal.any([signal, timeout]), timeout, isCount }
    const read = await firstRecords(runtime, ends)
    signal.throwIfAborted()
    const missing = missingFields(runtime, read.rows)
    if (missing) read.summary.warnings.unshift(missing)
    const records: DryRunRecord[] = []
    for (const row of read.rows) records.push(await recordOf(runtime, deliveries, row))
    const secrets = secretsIn(loaded.flow).flatMap((secret) => secret.referenced())
    return masked({ ...read.summary, records }, secrets)
  } finally {
    await deliveries?.close()
    await runtime.source.close()
  }
}

async function firstRecords(
  runtime: FlowRuntime,
  { signal, timeout, isCount }: { signal: AbortSignal; timeout: AbortSignal; isCount: boolean },
): Promise<{ rows: SourceRow[]; summary: Omit<DryRun, 'records'> }> {
  const rows: SourceRow[] = []
  const summary: Omit<DryRun, 'records'> = {
    rowsRead: 0,
    recordsRead: 0,
    cutOff: null,
    warnings: [],
  }
  const warn = ({ why }: { why: Reason }) => {
    if (summary.warnings.length < mostWarnings) summary.warnings.push(why)
  }
  const counted = async function* (batches: AsyncIterable<SourceRow[]>) {
    for await (const batch of batches) {
      summary.rowsRead += batch.length
      yield batch
    }
  }
  const rowFiles: FileStart[] = []
  const onFileStart = (name: string, before: number) => void rowFiles.push({ name, before })
  const scanned = runtime.source.scan({ since: null, signal, warn, onFileStart })
  const batches = counted(scanned)
  const records = runtime.groupBy
    ? groupedRecords(runtime, batches, { since: null, signal, rowFiles, groupFiles: [] })
    : batches
  try {
    for await (const some of records) {
      summary.recordsRead += some.length
      rows.push(...some.slice(0, dryRunLimits.records - rows.length))
      if (isCount || summary.recordsRead <= dryRunLimits.records) continue
      summary.cutOff = 'items'
      break
    }
  } catch (error) {
    if (!timeout.aborted) throw error
    summary.cutOff = 'time'
  }
  return { rows, summary }
}

/** Why a poll would refuse these records. */
function missingFields(runtime: FlowRuntime, rows: readonly SourceRow[]): Reason | undefined {
  try {
    watchFields(runtime, { record_fields: null, record_fields_form: null }).check(rows)
    return undefined
  } catch (error) {
    if (!(error instanceof SourceError)) throw error
    return error.why
  }
}

async function recordOf(
  runtime: FlowRuntime,
  deliveries: DryRunDeliveries,
  row: SourceRow,
): Promise<DryRunRecord> {
  const made = await runtime.read(row)
  const record = { record: plainValue(row), pk: null, problem: null, skipped: null, deliveries: [] }
  if ('problem' in made) {
    return { ...record, pk: made.problem.pk, problem: made.problem.why }
  }
  if ('skipped' in made) return { ...record, pk: made.pk, skipped: made.skipped }
  const shown = await deliveries.of(made.item)
  return {
    ...record,
    pk: made.item.pk,
    deliveries: shown.map((one) => ({
      ...one,
      body: plainValue(one.body),
      requests: one.requests.map((request) => ({ ...request, body: plainValue(request.body) })),
    })),
  }
}

/** As JSON; a note replaces a value that is too large. */
function plainValue(value: unknown): unknown {
  const text = JSON.stringify(value, (_, one: unknown) =>
    typeof one === 'bigint' ? String(one) : one,
  )
  if (text === undefined) return null
  if (text.length <= mostShownCharacters) return JSON.parse(text)
  return `(${text.length} characters, too many to be shown)`
}

const leastSecret = 8

function masked<T>(value: T, secrets: readonly string[]): T {
  const hidden = secrets.filter(({ length }) => length >= leastSecret)
  const hide = (one: unknown): unknown => {
    if (typeof one === 'string') return maskSecrets(one, hidden, '[masked]')
    if (Array.isArray(one)) return one.map(hide)
    if (typeof one !== 'object' || one === null) return one
    return Object.fromEntries(Object.entries(one).map(([name, field]) => [name, hide(field)]))
  }
  return hidden.length === 0 ? value : (hide(value) as T)
}
