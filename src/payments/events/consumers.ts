import type { Trx } from '../../db/database.ts'
import type { FeedCursor } from '../../domain/event-cursor.ts'
import { AppError } from '../../errors/app-error.ts'
import {
  type ConsumerKey,
  type ConsumerRow,
  type ConsumerWithWaiting,
  commitConsumer,
  deleteConsumer,
  findConsumer,
  insertConsumer,
  leaseConsumer,
  listConsumers,
  seekConsumer,
} from '../../repositories/events/event-consumers.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import {
  type FeedPage,
  type FeedRead,
  type FeedWait,
  numberCommitted,
  type Place,
  positionOfPlace,
  readFeed,
} from './feed.ts'

/** How long a reader has for a page before another one may read: twice the longest wait for an event. */
const leaseMs = 60_000
/** More events than that are shown as that many. */
export const countedAtMost = 10_000

/** A consumer, and who asks about it. Two programs with one name for `reader` are one reader. */
export type Reader = ConsumerKey & { reader: string }

function readingOf(deps: Pick<PaymentDeps, 'now'>, { reader }: Reader) {
  const now = deps.now()
  return { reader, now, leaseUntil: new Date(now.getTime() + leaseMs) }
}

/**
 * Reads from the committed place and leaves it. The reader gets the lease, and has it again from the answer on.
 *
 * @throws NOT_FOUND, CONSUMER_BUSY while another reader has the lease, CURSOR_EXPIRED
 */
export async function readAsConsumer(
  deps: PaymentDeps,
  reader: Reader,
  query: Omit<FeedRead, 'after' | 'client'>,
  wait: FeedWait | undefined,
): Promise<FeedPage> {
  const { db } = deps.database
  const lease = async () =>
    (await leaseConsumer(db, reader, readingOf(deps, reader))) ?? (await refuse(deps, reader))
  const { position } = await lease()
  const page = await readFeed(deps, { ...query, client: reader.client, after: { position } }, wait)
  if (wait) await lease()
  return page
}

/**
 * Moves the place of a consumer forward: everything up to the cursor is processed.
 *
 * @throws NOT_FOUND, CONSUMER_BUSY, CONFLICT when the place is further, VALIDATION_ERROR for a cursor that this feed has not given
 */
export async function commit(
  deps: PaymentDeps,
  reader: Reader,
  cursor: FeedCursor,
): Promise<ConsumerRow> {
  const { db } = deps.database
  const position = await positionOfPlace(deps, reader.client, cursor)
  const committed = await commitConsumer(db, reader, position, readingOf(deps, reader))
  return committed ?? (await refuse(deps, reader))
}

/** The consumer of a name, with its place at the start. One that exists stays as it is, so a program may ask for it at each start. */
export async function createConsumer(
  deps: PaymentDeps,
  key: ConsumerKey,
  from: Place,
  actor: Actor,
): Promise<{ consumer: ConsumerRow; isNew: boolean }> {
  const position = await positionOfPlace(deps, key.client, from)
  return deps.database.transaction(async (trx) => {
    const isNew = await insertConsumer(trx, key, position, deps.now())
    if (isNew) await record(deps, trx, key, actor, 'created')
    const consumer = await findConsumer(trx, key)
    if (!consumer) throw noConsumer()
    return { consumer, isNew }
  })
}

/**
 * Moves the place of a consumer anywhere, for a person or a program that wants to read again.
 *
 * @throws NOT_FOUND, and CONSUMER_BUSY: a reader at work would commit its own place over it
 */
export async function seek(
  deps: PaymentDeps,
  reader: Reader,
  place: Place,
  actor: Actor,
): Promise<ConsumerRow> {
  return auditFailure(deps, entryOf(reader, actor, 'moved'), async () => {
    const position = await positionOfPlace(deps, reader.client, place)
    const moved = await deps.database.transaction(async (trx) => {
      const row = await seekConsumer(trx, reader, position, readingOf(deps, reader))
      if (row) await record(deps, trx, reader, actor, 'moved')
      return row
    })
    return moved ?? (await refuse(deps, reader))
  })
}

/** @throws NOT_FOUND, CONSUMER_BUSY */
export async function removeConsumer(
  deps: PaymentDeps,
  reader: Reader,
  actor: Actor,
): Promise<void> {
  await auditFailure(deps, entryOf(reader, actor, 'deleted'), async () => {
    const isDeleted = await deps.database.transaction(async (trx) => {
      const deleted = await deleteConsumer(trx, reader, readingOf(deps, reader))
      if (deleted) await record(deps, trx, reader, actor, 'deleted')
      return deleted
    })
    if (!isDeleted) await refuse(deps, reader)
  })
}

/** The consumers of a client, with what waits for each. */
export async function readConsumers(
  deps: Pick<PaymentDeps, 'database'>,
  client: ConsumerKey['client'],
): Promise<ConsumerWithWaiting[]> {
  await numberCommitted(deps.database)
  return listConsumers(deps.database.db, client, countedAtMost)
}

/** @throws why a reader has no lease, or its commit no effect */
async function refuse(deps: PaymentDeps, reader: Reader): Promise<never> {
  const consumer = await findConsumer(deps.database.db, reader)
  if (!consumer) throw noConsumer()
  const { reader: holder, lease_until: until } = consumer
  if (holder !== null && until !== null && holder !== reader.reader) {
    throw new AppError('CONSUMER_BUSY', {
      extra: {
        heldBy: { reader: holder, until },
        retryAfterSeconds: (until.getTime() - deps.now().getTime()) / 1_000,
      },
    })
  }
  throw new AppError('CONFLICT', {
    message: 'The consumer has committed a later place; move it with seek to read again',
  })
}

function noConsumer(): AppError {
  return new AppError('NOT_FOUND', { message: 'There is no such consumer' })
}

function entryOf({ client, name }: ConsumerKey, actor: Actor, what: string) {
  return { client, actor, action: `consumer.${what}`, resourceId: name }
}

function record(deps: PaymentDeps, trx: Trx, key: ConsumerKey, actor: Actor, what: string) {
  return recordSuccess(deps, trx, entryOf(key, actor, what))
}
