import { z } from 'zod'
import { camelCased } from '../../domain/field-names.ts'
import { createKeyedQueue } from '../../jobs/keyed-queue.ts'
import type { Reason } from '../../texts/reason.ts'
import type { TextValue } from '../../texts/texts.ts'
import { valueAt } from '../definition/json-schema.ts'
import { findingsOf } from '../definition/schema-findings.ts'
import { findingMessage } from '../definition/value-schemas.ts'
import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { aborted, asObject, kindOfMade, refused, withheld } from './delivery-result.ts'
import type { PaymentsPort } from './payments-port.ts'

/** Same limits as POST /stores, so that a flow gets the same errors as a till. */
function text(min: number, max: number) {
  return z
    .string()
    .min(min)
    .max(max)
    .regex(/^(?!\ufeff)\P{Cc}*$/u, findingMessage({ code: 'CONTROL_CHARACTERS' }))
}

const externalId = text(1, 64).regex(/\S/, findingMessage({ code: 'MUST_NOT_BE_BLANK' }))

const Pos = z.strictObject({ external_id: externalId, name: text(1, 100) })

/** The body of a `payments.stores` item, as for POST /stores. */
export const StoreBody = z.strictObject({
  external_id: externalId,
  name: text(1, 100),
  location: z.strictObject({
    street_name: text(1, 150),
    street_number: text(1, 20),
    city_name: text(1, 100),
    state_name: text(1, 100),
    latitude: z.number().min(-90).max(90),
    longitude: z.number().min(-180).max(180),
    reference: text(0, 200).nullable().optional(),
  }),
  pos: z
    .array(
      Pos,
      // Zod's own message does not show the usual cause: JSONata returns a list of one box as an object.
      { error: findingMessage({ code: 'MUST_BE_A_LIST' }) },
    )
    .max(100)
    .optional(),
})

/** Deleting a store needs only its id. */
const DeletedStoreBody = z.object({ external_id: externalId })

/** The body of a `payments.pos` item: one box and its store. */
const PosBody = z.strictObject({
  store_external_id: externalId,
  external_id: externalId,
  name: text(1, 100),
})

const DeletedPosBody = z.object({ store_external_id: externalId, external_id: externalId })

const maxIssues = 5
const maxValueLength = 60

/** Checks a mapped body against the destination's schema. `why` shows the expected and the actual value of each wrong field. */
function checkBody<T>(
  schema: z.ZodType<T>,
  body: unknown,
): { ok: true; value: T } | { ok: false; why: Reason } {
  const result = schema.safeParse(body)
  if (result.success) return { ok: true, value: result.data }
  const { issues } = result.error
  const problems = issues.slice(0, maxIssues).map((issue): Reason => {
    const field = issue.path.map(String).join('.') || ({ code: 'THE_BODY' } as const)
    const given = valueAt(body, issue.path)
    const found = given === undefined ? undefined : shown(given)
    return { code: 'BODY_FIELD_MISFIT', data: { field, what: reasonOf(issue, body), found } }
  })
  if (issues.length > maxIssues) {
    problems.push({ code: 'AND_MORE', data: { count: issues.length - maxIssues } })
  }
  return { ok: false, why: { code: 'BODY_MISFIT', data: { problems } } }
}

function reasonOf(issue: z.core.$ZodIssue, body: unknown): Reason {
  if (issue.code === 'unrecognized_keys') {
    return { code: 'UNKNOWN_FIELDS', data: { fields: issue.keys.slice(0, 10).join(', ') } }
  }
  return findingsOf(issue, body, [])[0]?.why ?? { code: 'NOT_VALID', data: { said: issue.message } }
}

function shown(value: unknown): TextValue {
  if (typeof value === 'object' || value === undefined) {
    const keys = Object.keys(asObject(value) ?? {})
    if (keys.length === 0) return kindOfMade(value)
    const names = keys.slice(0, 10).join(', ').slice(0, 200)
    return { code: 'OBJECT_WITH', data: { names } }
  }
  const text = JSON.stringify(value)
  return text.length > maxValueLength ? `${text.slice(0, maxValueLength)}…` : text
}

type PaymentsStoresSettings = {
  client: string
  /** True only when the flow has both `deletes.mode: delete` and `allowStoreDelete: true`. */
  mayDeleteStores: boolean
}

/** Stores of one client by external id, without HTTP and API key. */
export function openPaymentsStores(
  settings: PaymentsStoresSettings,
  payments: PaymentsPort,
): Destination {
  const { client } = settings
  const remove = async ({ body, mayStart }: DeliveryJob): Promise<DeliveryResult> => {
    const made = storeToDelete(settings, body)
    if ('problem' in made) return refused(made.problem)
    if (!mayStart()) return withheld()
    return payments.deleteStore(client, made.externalId)
  }
  const upsert = async ({ body, mayStart }: DeliveryJob): Promise<DeliveryResult> => {
    const made = storeOf(body)
    if ('problem' in made) return refused(made.problem)
    if (!mayStart()) return withheld()
    return payments.upsertStore(client, made.store)
  }
  return {
    deliver: (job) => (job.kind === 'delete' ? remove(job) : upsert(job)),
    refusalOf({ kind, body }) {
      const made = kind === 'delete' ? storeToDelete(settings, body) : storeOf(body)
      return 'problem' in made ? made.problem : undefined
    },
    close: async () => {},
  }
}

type Problem = { problem: Reason }

function storeToDelete(
  { mayDeleteStores }: PaymentsStoresSettings,
  body: unknown,
): { externalId: string } | Problem {
  if (!mayDeleteStores) {
    return { problem: { code: 'NO_STORE_DELETE' } }
  }
  const checked = checkBody(DeletedStoreBody, body)
  return checked.ok ? { externalId: checked.value.external_id } : { problem: checked.why }
}

function storeOf(body: unknown): { store: Parameters<PaymentsPort['upsertStore']>[1] } | Problem {
  const checked = checkBody(StoreBody, body)
  if (!checked.ok) return { problem: checked.why }
  const { external_id, name, location, pos = [] } = checked.value
  const ids = new Set(pos.map((box) => box.external_id))
  if (ids.size < pos.length) return { problem: { code: 'POS_TWICE' } }
  return {
    store: {
      externalId: external_id,
      name,
      location: { ...camelCased(location), reference: location.reference || null },
      pos: pos.map(camelCased),
    },
  }
}

/**
 * Boxes of one client's stores, one item per box, without HTTP. Boxes of the same store are sent one after another, whatever
 * `concurrency` says. The payment side allows one change of a store at a time, and a refusal would cost an attempt.
 */
export function openPaymentsPos(client: string, payments: PaymentsPort): Destination {
  const changes = createKeyedQueue()
  const inSequence = (
    store: string,
    { mayStart }: DeliveryJob,
    signal: AbortSignal,
    work: () => Promise<DeliveryResult>,
  ): Promise<DeliveryResult> =>
    changes.run(store, async () => {
      if (isAborted(signal)) return aborted()
      return mayStart() ? work() : withheld()
    })

  const remove = async (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    const checked = checkBody(DeletedPosBody, job.body)
    if (!checked.ok) return refused(checked.why)
    const { store_external_id, external_id } = checked.value
    return inSequence(store_external_id, job, signal, () =>
      payments.deletePos(client, store_external_id, external_id),
    )
  }
  const upsert = async (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    const checked = checkBody(PosBody, job.body)
    if (!checked.ok) return refused(checked.why)
    const { store_external_id, external_id, name } = checked.value
    return inSequence(store_external_id, job, signal, () =>
      payments.addPos(client, store_external_id, [{ externalId: external_id, name }]),
    )
  }
  return {
    deliver: (job, signal) => (job.kind === 'delete' ? remove(job, signal) : upsert(job, signal)),
    refusalOf({ kind, body }) {
      const checked = checkBody(kind === 'delete' ? DeletedPosBody : PosBody, body)
      return checked.ok ? undefined : checked.why
    },
    close: async () => {},
  }
}

/** True after a stop or a lost lease. A timeout while queued does not count: the call runs to its end. */
function isAborted({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason?.name !== 'TimeoutError'
}
