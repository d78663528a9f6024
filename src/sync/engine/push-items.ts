import type { Trx } from '../../db/database.ts'
import { deletedHash, findDeliveries } from '../../repositories/flows/deliveries.ts'
import {
  confirmItems,
  countItems,
  deleteHashes,
  lockItems,
  restateHashes,
  upsertHashes,
} from '../../repositories/flows/flow-items.ts'
import { hasPollBegunSince } from '../../repositories/flows/flow-reads.ts'
import {
  type FlowStateRow,
  findFlowState,
  keepHashForm,
  requestFullScan,
} from '../../repositories/flows/flow-state.ts'
import { findLastOwner } from '../../repositories/leases.ts'
import { askAboutDefinition } from '../control/switches.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { Push, Pushed, PushedItem } from '../flow-service.ts'
import { givenKey, splitKey } from '../item/key.ts'
import { breathe } from '../poll/breather.ts'
import { comparison } from '../poll/compare.ts'
import { refusalOf } from '../poll/deletes.ts'
import { goneSince } from '../poll/gone-since.ts'
import { refuseOutdated, refuseUnknownDestinations } from '../poll/outdated.ts'
import { isInQuestion } from '../poll/plan.ts'
import type { PollDeps } from '../poll/poll-deps.ts'
import type { Item, ItemChange } from '../types.ts'

const twice = 'the key stands more than once in the push'
const overtaken =
  'a poll or push that began later has told of it; push it again if that was not newer'

const unseen =
  'nothing of it is known yet, and a poll that began before may still bring it; push it again when that is over'

const inQuestion =
  'the definition of the flow changed, and nobody has said yet what that means; push it again when the flow goes on'

type Placed = { item: Item; answer: PushedItem }

/**
 * Stores what an ERP pushes and queues what changed, as a poll would. A push counts as a read of the source that began with its
 * number, `read`: of a poll that began before it the push is the later one, and a poll that began after it has the last word. So
 * what differs from what is stored is refused when such a poll began meanwhile.
 */
export async function pushItems(
  deps: PollDeps,
  runtime: FlowRuntime,
  push: Push,
  read: number,
): Promise<Pushed> {
  const placed: Placed[] = []
  const items: PushedItem[] = []
  for (const record of push.items) {
    await breathe()
    const made = await runtime.read(record)
    const answer = answerOf(made)
    items.push(answer)
    if ('item' in made) placed.push({ item: made.item, answer })
  }
  const deletes = push.deletes.map((pk): PushedItem => ({ pk: givenKey(pk), status: 'unchanged' }))
  refuseTwice([...items, ...deletes])
  refuseDeletes(runtime, deletes)
  const changes = await deps.database.transaction((trx) =>
    store(deps, runtime, trx, {
      placed: placed.filter(({ answer }) => answer.status !== 'refused'),
      deletes: deletes.filter(({ status }) => status !== 'refused'),
      read,
    }),
  )
  return { items, deletes, changes }
}

function answerOf(made: Awaited<ReturnType<FlowRuntime['read']>>): PushedItem {
  if ('item' in made) return { pk: made.item.pk, status: 'unchanged' }
  if ('skipped' in made) return { pk: made.pk, status: 'skipped', reason: made.skipped }
  const { pk, message, mayPass } = made.problem
  return { pk, status: 'refused', reason: message, ...(mayPass && { retry: true }) }
}

/** Which of them is the last word nobody can tell. */
function refuseTwice(answers: readonly PushedItem[]): void {
  const counts = new Map<string, number>()
  for (const { pk } of answers) if (pk !== null) counts.set(pk, (counts.get(pk) ?? 0) + 1)
  for (const answer of answers) {
    if (answer.pk === null || (counts.get(answer.pk) ?? 0) < 2) continue
    Object.assign(answer, { status: 'refused', reason: twice })
  }
}

function refuseDeletes({ flow }: FlowRuntime, deletes: readonly PushedItem[]): void {
  for (const one of deletes) {
    if (flow.deletes.mode !== 'delete') {
      Object.assign(one, { status: 'refused', reason: 'deletes.mode of the flow is ignore' })
    } else if (!isKeyOf(flow, one.pk ?? '')) {
      Object.assign(one, { status: 'refused', reason: 'this is no key of the flow' })
    }
  }
}

function isKeyOf({ item }: FlowRuntime['flow'], pk: string): boolean {
  // No item has such a key, and the database could not even look for it.
  if (pk.includes('\0') || !pk.isWellFormed()) return false
  return splitKey(pk, item.key.length) !== undefined
}

async function store(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  {
    placed,
    deletes,
    read,
  }: { placed: readonly Placed[]; deletes: readonly PushedItem[]; read: number },
): Promise<number> {
  const { name, deletes: rules } = runtime.flow
  const { hashes, hashedFields } = runtime
  const forms = await keepHashForm(trx, name, hashes.hashForm, hashedFields)
  const gone = deletes.flatMap(({ pk }) => pk ?? [])
  // What has not been given back may be under way, whatever a clock says: it may have been set, or the process that polls may not
  // know it yet. Before it is looked what is stored: a poll that ends in between has stored it.
  const lease = gone.length > 0 ? await findLastOwner(trx, `flow:${name}`) : undefined
  const mayBePolled = lease !== undefined && !lease.isGivenBack
  const stored = await lockItems(trx, name, [...placed.map(({ item }) => item.pk), ...gone])
  const isBehind = await hasPollBegunSince(trx, name, read)
  const state = await findFlowState(trx, name)
  await refuseUnknownDestinations(deps, runtime, state)
  const isAsked = state !== undefined && (await askFirst(deps, runtime, trx, state))
  const unknown = placed.flatMap(({ item: { pk } }) => (stored.has(pk) ? [] : [pk]))
  const isGone = await goneSince(trx, runtime.flow, unknown, read)
  const changed: Placed[] = []
  const unchanged: string[] = []
  for (const one of placed) {
    const { item, answer } = one
    const was = stored.get(item.pk)?.hash
    const found = comparison(hashes, item, was, forms)
    if (found === 'restated') {
      await restateHashes(trx, name, [{ pk: item.pk, hash: item.hash, was: was ?? '' }])
    }
    if (found !== 'different') unchanged.push(item.pk)
    else if (isAsked) refuse(answer, inQuestion)
    else if (isBehind || isGone.has(item.pk)) refuse(answer)
    else {
      answer.status = was === undefined ? 'new' : 'changed'
      changed.push(one)
    }
  }
  await confirmItems(trx, name, unchanged, read)
  const { ours, same } = await upsertHashes(
    trx,
    name,
    changed.map(({ item }) => item),
    { read, at: deps.now() },
  )
  for (const { item, answer } of changed) {
    if (same.has(item.pk)) answer.status = 'unchanged'
    else if (!ours.has(item.pk)) refuse(answer)
  }

  const readNumbers = new Map([...stored].map(([pk, { readNumber }]) => [pk, readNumber]))
  const forgotten = gone.filter((pk) => !stored.has(pk))
  for (const [pk, number] of await deliveredLast(trx, runtime, forgotten)) {
    readNumbers.set(pk, number)
  }
  const known = deletes.filter(({ pk }) => pk !== null && readNumbers.has(pk))
  const refusal = refusalOf(rules.guard, {
    ...{ seen: 1, vanished: known.length, letThrough: 0, problems: 0 },
    known: known.length > rules.guard.minItems ? await countItems(trx, name) : 1,
  })
  for (const one of known) {
    const number = readNumbers.get(one.pk ?? '') ?? 0
    if (known.length > rules.guard.minItems && refusal !== undefined) {
      Object.assign(one, { status: 'refused', reason: refusal })
    } else if (isAsked) refuse(one, inQuestion)
    else if (isBehind || number > read) refuse(one)
    else one.status = 'deleted'
  }
  const deleted = known.flatMap(({ pk, status }) => (status === 'deleted' && pk ? [pk] : []))
  await deleteHashes(trx, name, deleted)
  // A poll under way that began before may have read it while it was there: another one looks again.
  if (deleted.length > 0 && mayBePolled) await requestFullScan(trx, name)
  for (const one of deletes) {
    // Of what nobody has seen nothing tells that poll.
    if (mayBePolled && !isBehind && !readNumbers.has(one.pk ?? '')) refuse(one, unseen)
  }
  const owed = [
    ...changed.filter(({ item }) => ours.has(item.pk)).map(({ item }) => upsertOf(item, read)),
    ...deleted.map((pk): ItemChange => {
      const value = runtime.keyValue(pk)
      return { pk, kind: 'delete', hash: deletedHash, value, change: read }
    }),
  ]
  await deps.enqueue(trx, runtime, owed)
  return owed.length
}

/**
 * Which of these items, of which nothing is stored, a destination has or is owed, and the number of the read that found that: they
 * were forgotten to be sent anew, and no read finds again what is gone by then. Every destination is owed a change, so one tells.
 */
async function deliveredLast(
  trx: Trx,
  { flow: { name: flow, destinations } }: FlowRuntime,
  pks: readonly string[],
): Promise<[string, number][]> {
  const [first] = destinations
  if (!first || pks.length === 0) return []
  const rows = await findDeliveries(trx, { flow, destination: first.name }, pks)
  return rows.flatMap(({ pk, kind, change_number: number }) =>
    kind === 'upsert' ? [[pk, number]] : [],
  )
}

/**
 * Whether a changed definition waits for an answer: what is pushed may look new for that alone. The question is asked now unless it
 * was, since the next poll may be far.
 */
async function askFirst(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  state: FlowStateRow,
): Promise<boolean> {
  if (!isInQuestion(runtime, state)) return false
  await refuseOutdated(deps, runtime, state)
  const { flow, definitionHash } = runtime
  if (state.pending_definition_hash !== definitionHash) {
    await askAboutDefinition(trx, flow.name, { at: deps.now(), definitionHash })
  }
  return true
}

function refuse(answer: PushedItem, reason = overtaken): void {
  Object.assign(answer, { status: 'refused', reason, retry: true })
}

function upsertOf({ pk, hash, value }: Item, change: number): ItemChange {
  return { pk, kind: 'upsert', hash, value, change }
}
