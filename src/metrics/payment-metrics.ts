import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client'
import { whenCommitted } from '../db/transactions.ts'
import { isOpen, statesThat, wasReceived } from '../domain/order-state.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { ProviderCallLog } from '../provider/provider.ts'
import type { AttemptRow } from '../repositories/events/event-attempts.ts'
import type { OrderRow } from '../repositories/orders/order-queries.ts'
import { createCertificateExpiry } from './certificate-expiry.ts'
import { describeState, type StateDeps } from './state-gauges.ts'

type Scrape = { body: string; contentType: string }

export type PaymentMetrics = {
  /** Where the listener registers its requests. */
  registry: Registry
  recordProviderCall(entry: ProviderCallLog): void
  /** Counts a message to an endpoint of events. */
  recordEventAttempt(attempt: EventAttempt): void
  /** Counts a move of an order by this process, after its commit. */
  recordMove(before: OrderRow, after: OrderRow): void
  /** The text for Prometheus. Never fails: without the database it has only the metrics of the process. */
  scrape(): Promise<Scrape>
}

/** How an attempt ended; `failure` without an answer. */
type EventAttempt = Pick<AttemptRow, 'status' | 'failure'>

type PaymentMetricsDeps = StateDeps & {
  fleet: Pick<Fleet, 'troubleOf'>
  /** The address of the service for ERPs and the provider. */
  publicUrl: string
}

/** A card takes seconds, a buyer who searches for a card a minute, a forgotten charge its expiry of up to three hours. */
const chargeSeconds = [1, 2.5, 5, 10, 20, 40, 60, 120, 300, 900, 10_800]
const callSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const milliseconds = 1_000

/**
 * The metrics of the payment side. The work of this process is counted in memory; Prometheus sums the processes. The
 * state of the database is read at a scrape, in two statements, and is the same from each process.
 */
export function createPaymentMetrics(deps: PaymentMetricsDeps): PaymentMetrics {
  const registry = new Registry()
  const calls = createCallMeters(registry)
  const charges = createChargeMeters(registry)
  const eventAttempts = createEventMeter(registry)
  const certificateExpiry = createCertificateExpiry(deps.publicUrl)
  let scraping: Promise<Scrape> | undefined
  const scrape = async () => {
    const state = new Registry()
    await describeState(state, deps, certificateExpiry)
    const bodies = [registry, state, processMetrics()].map((one) => one.metrics())
    return { body: (await Promise.all(bodies)).join('\n'), contentType: registry.contentType }
  }

  return {
    registry,
    recordProviderCall({ operation, status, failure, durationMs, unknownCode }) {
      if (unknownCode !== null) calls.unknownCodes.inc({ operation })
      calls.attempts.inc({ operation, result: resultOf(status, failure) })
      calls.duration.observe({ operation }, durationMs / milliseconds)
    },
    recordEventAttempt: (attempt) => eventAttempts.inc({ result: resultOfEvent(attempt) }),
    recordMove(before, after) {
      // All that is counted is a change of one of these.
      const isCounted =
        before.status !== after.status || before.paid_after_close !== after.paid_after_close
      if (isCounted) whenCommitted(() => countMove(charges, deps.fleet, before, after))
    },
    scrape() {
      // Simultaneous scrapes share the statement.
      scraping ??= scrape().finally(() => {
        scraping = undefined
      })
      return scraping
    },
  }
}

function createCallMeters(registry: Registry) {
  const registers = [registry]
  return {
    attempts: new Counter({
      name: 'tillbridge_provider_calls_total',
      help: 'Attempts of calls to the provider by operation and result',
      labelNames: ['operation', 'result'],
      registers,
    }),
    unknownCodes: new Counter({
      name: 'tillbridge_provider_unknown_codes_total',
      help: 'Refusals of the provider with a code that is not known here, by operation; the log has the code',
      labelNames: ['operation'],
      registers,
    }),
    duration: new Histogram({
      name: 'tillbridge_provider_call_duration_seconds',
      help: 'Time of an attempt of a call to the provider',
      labelNames: ['operation'],
      buckets: callSeconds,
      registers,
    }),
  }
}

const eventResults = ['ok', 'refused', 'limited', 'failed', 'timeout', 'network', 'refused_address']

function createEventMeter(registry: Registry) {
  const attempts = new Counter({
    name: 'tillbridge_event_attempts_total',
    help: 'Messages to endpoints of events by result; refused: 3xx or 4xx, failed: 5xx',
    labelNames: ['result'],
    registers: [registry],
  })
  // As of charges.
  for (const result of eventResults) attempts.inc({ result }, 0)
  return attempts
}

/** A redirect is not followed, so it is a refusal. */
function resultOfEvent({ status, failure }: EventAttempt): string {
  const isRedirect = status !== null && status >= 300 && status < 400
  return isRedirect ? 'refused' : resultOf(status, failure)
}

type ChargeMeters = ReturnType<typeof createChargeMeters>

function createChargeMeters(registry: Registry) {
  const registers = [registry]
  const ended = new Counter({
    name: 'tillbridge_charges_total',
    help: 'Ended charges by outcome and the state of their box; paid_after_close counts payments after the end',
    labelNames: ['outcome', 'box_state'],
    registers,
  })
  // Each series exists from the start: otherwise `rate()` misses the first increase.
  for (const outcome of outcomes) {
    for (const box_state of boxStates) ended.inc({ outcome, box_state }, 0)
  }
  const duration = (name: string, help: string, labelNames: string[] = []) =>
    new Histogram({ name, help, labelNames, buckets: chargeSeconds, registers })
  return {
    ended,
    toTerminal: duration(
      'tillbridge_charge_to_terminal_seconds',
      'From the request of the till to the first answer of the terminal',
    ),
    atTerminal: duration(
      'tillbridge_charge_at_terminal_seconds',
      'From the first answer of the terminal to the end of the charge',
    ),
    toEnd: duration(
      'tillbridge_charge_seconds',
      'From the request of the till to the end of the charge',
      ['outcome'],
    ),
  }
}

function countMove(
  { ended, toTerminal, atTerminal, toEnd }: ChargeMeters,
  fleet: Pick<Fleet, 'troubleOf'>,
  before: OrderRow,
  after: OrderRow,
): void {
  const box_state = fleet.troubleOf(after.client, after.caja_id)?.state ?? 'ok'
  if (after.paid_after_close && !before.paid_after_close) {
    ended.inc({ outcome: 'paid_after_close', box_state })
  }
  if (before.status === 'created' && after.status === 'at_terminal') {
    toTerminal.observe(secondsBetween(after.created_at, after.last_updated_at))
  }
  if (!isOpen(before.status) || isOpen(after.status)) return
  const outcome = outcomeOf(after)
  ended.inc({ outcome, box_state })
  toEnd.observe({ outcome }, secondsBetween(after.created_at, after.last_updated_at))
  if (before.status === 'at_terminal') {
    atTerminal.observe(secondsBetween(before.last_updated_at, after.last_updated_at))
  }
}

const boxStates = ['ok', 'attention', 'down'] as const

const outcomes = ['paid', ...statesThat('closedUnpaid'), 'not_created', 'paid_after_close'] as const

function outcomeOf({ status, status_detail }: OrderRow): string {
  if (wasReceived(status)) return 'paid'
  return status_detail === 'not_created' ? 'not_created' : status
}

/** The result of an attempt as a label. The provider's text has too many values for one. */
function resultOf(status: number | null, failure: string | null): string {
  if (status === null) return failure ?? 'no_answer'
  if (status === 429) return 'limited'
  if (status >= 500) return 'failed'
  if (status >= 400) return 'refused'
  return failure ?? 'ok'
}

function secondsBetween(from: Date, to: Date): number {
  return (to.getTime() - from.getTime()) / milliseconds
}

let ofProcess: Registry | undefined

/**
 * The standard metrics of a Node process: memory, processor time, delays of the event loop. One registry a process. It
 * measures from the first scrape on, so without scrapes it costs nothing.
 */
function processMetrics(): Registry {
  if (!ofProcess) {
    ofProcess = new Registry()
    collectDefaultMetrics({ register: ofProcess })
  }
  return ofProcess
}
