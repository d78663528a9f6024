import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { deleteOldest, fixedStatement } from '../../db/statements.ts'
import type { WebhookLogTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { columnHasCome, furthestMs, type LeaseLimits, limitOfAccount } from '../due-work.ts'
import {
  type ListPage,
  type PageRequest,
  partByTime,
  type TimeCursor,
  toListPage,
} from '../list-page.ts'

export type WebhookRow = Selectable<WebhookLogTable>

export const webhookChannel = 'webhook_worked'

/** What subscribers receive about a webhook that was processed or refused. */
export type WebhookNotice = Pick<WebhookRow, 'id' | 'client' | 'order_id' | 'topic' | 'status'>

/** Stores a webhook that is not processed. */
export async function storeRejected(
  db: Db,
  webhook: Insertable<WebhookLogTable>,
): Promise<WebhookRow> {
  return db.insertInto('webhook_log').values(webhook).returningAll().executeTakeFirstOrThrow()
}

export async function findWebhook(db: Db | Trx, id: string): Promise<WebhookRow | undefined> {
  return db.selectFrom('webhook_log').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The queue of a webhook `w` about the order `o`: one for each account. */
const accountColumn = `coalesce(o.mp_user_id, -w.mp_user_id, 0)`
/** The same for all webhooks of one order. */
const subjectColumn = `case when w.resource_id ilike 'ORD%' then upper(w.resource_id) else w.id::text end`

const stored = [
  'id',
  'mp_user_id',
  'request_id',
  'topic',
  'action',
  'resource_id',
  'live_mode',
  'signature_valid',
  'signature_form',
  'signed_at',
  'status',
  'payload',
  'received_at',
  'next_attempt_at',
] as const satisfies (keyof WebhookRow)[]

type NewWebhook = Pick<Insertable<WebhookLogTable>, (typeof stored)[number]>

const receive = fixedStatement<NewWebhook, DueWebhook>(`
  with w as (
    insert into webhook_log (${stored.join(', ')}) values (${stored.map((name) => `:${name}`).join(', ')})
    on conflict (id) do update set deliveries = webhook_log.deliveries + 1
    returning *
  )
  select w.*, ${accountColumn} as account, ${subjectColumn} as subject from w left join orders o on o.mp_order_id = upper(w.resource_id)`)

/**
 * Stores a webhook with its lease (`next_attempt_at`), and returns its queue. A repeated one (same signed parts, so the same id) is only
 * counted: then `fresh` is false.
 */
export async function receiveWebhook(
  db: Db,
  webhook: NewWebhook,
): Promise<{ row: DueWebhook; fresh: boolean }> {
  const [row] = await receive(db, webhook)
  if (!row) throw new Error('a webhook that is stored is answered')
  return { row, fresh: row.deliveries === 1 }
}

/** Releases the lease of a webhook that no worker has begun. */
export async function releaseWebhook(db: Db, id: string, now: Date): Promise<void> {
  await db
    .updateTable('webhook_log')
    .set({ next_attempt_at: now })
    .where('id', '=', id)
    .where('status', '=', 'received')
    .execute()
}

/** How an attempt to process webhooks ended. Without `client` and `orderId` a row keeps its values. */
export type WebhookEnd = {
  status: WebhookRow['status']
  client: ClientName | null
  orderId: string | null
  errorMessage: string | null
  nextAttemptAt: Date | null
  endedAt: Date
  durationMs: number
}

type FinishValues = Pick<
  WebhookRow,
  | 'id'
  | 'status'
  | 'client'
  | 'order_id'
  | 'error_message'
  | 'next_attempt_at'
  | 'processed_at'
  | 'duration_ms'
>

const finish = fixedStatement<FinishValues, WebhookNotice>(`
  update webhook_log set status = :status, client = coalesce(:client, client), order_id = coalesce(:order_id, order_id),
    error_message = :error_message, next_attempt_at = :next_attempt_at, processed_at = :processed_at,
    duration_ms = :duration_ms, attempts = attempts + 1
  where id = :id
  returning id, client, order_id, topic, status`)

/** Writes how an attempt ended, counts it, and returns what the event stream announces. */
export function finishWebhook(db: Db | Trx, id: string, end: WebhookEnd): Promise<WebhookNotice[]> {
  return finish(db, {
    id,
    status: end.status,
    client: end.client,
    order_id: end.orderId,
    error_message: end.errorMessage,
    next_attempt_at: end.nextAttemptAt,
    processed_at: end.endedAt,
    duration_ms: end.durationMs,
  })
}

/** A leased webhook with its queue. */
export type DueWebhook = WebhookRow & {
  /**
   * The provider account of its order. Without an order the negative account that the unsigned body names, so that
   * unknown webhooks delay no order.
   */
  account: number
  /** Webhooks of one subject are about the same order. */
  subject: string
}

/**
 * Takes due webhooks by moving their next attempt into the future. In each account the subjects that wait longest come
 * first, each with all its due webhooks. The limits count subjects. Oldest first.
 */
export async function leaseDueWebhooks(
  db: Db | Trx,
  now: Date,
  leaseUntil: Date,
  limits: LeaseLimits,
): Promise<DueWebhook[]> {
  const isDue = columnHasCome('w.next_attempt_at', now, furthestMs.webhook)
  const { rows } = await sql<DueWebhook>`
    with due as (
      select w.id, w.next_attempt_at, ${sql.raw(accountColumn)} as account, ${sql.raw(subjectColumn)} as subject
      from webhook_log w left join orders o on o.mp_order_id = upper(w.resource_id)
      where ${isDue}
    ), subjects as (
      select account, subject, min(next_attempt_at) as since,
        row_number() over (partition by account order by min(next_attempt_at)) as place
      from due group by account, subject
    ), taken as (
      select account, subject from subjects
      where place <= ${limitOfAccount('account', limits)} order by since limit ${limits.limit}
    ), free as (
      select w.id, taken.account, taken.subject
      from webhook_log w join due using (id) join taken using (account, subject)
      for update of w skip locked
    ), leased as (
      update webhook_log w set next_attempt_at = ${leaseUntil}
      from free where w.id = free.id and ${isDue}
      returning w.*, free.account, free.subject
    )
    select * from leased order by received_at`.execute(db)
  return rows
}

/** A page of webhooks, newest first, with the number of all that match the filter. */
export async function listWebhooks(
  db: Db,
  filter: { client?: string | undefined },
  pageRequest: PageRequest<TimeCursor>,
): Promise<ListPage<WebhookRow>> {
  let query = db.selectFrom('webhook_log')
  if (filter.client !== undefined) query = query.where('client', '=', filter.client as ClientName)
  const rows = await partByTime(query, 'received_at', pageRequest).selectAll().execute()
  return toListPage(db, 'webhook_log', query, rows, pageRequest)
}

/** Webhooks about one order, oldest first. */
export async function listWebhooksOfOrder(
  db: Db,
  client: ClientName,
  orderId: string,
): Promise<WebhookRow[]> {
  return db
    .selectFrom('webhook_log')
    .selectAll()
    .where('client', '=', client)
    .where('order_id', '=', orderId)
    .orderBy('received_at')
    .limit(200)
    .execute()
}

/** Counts of webhooks since a time, of one client or of all. Refused webhooks belong to no client. */
export async function countWebhooks(
  db: Db,
  filter: { client?: ClientName | undefined; since: Date },
): Promise<{ received: number; failed: number; rejected: number; lastReceivedAt: Date | null }> {
  let query = db.selectFrom('webhook_log').where('received_at', '>=', filter.since)
  if (filter.client !== undefined) query = query.where('client', '=', filter.client)
  return query
    .select((eb) => [
      eb.fn.countAll<number>().filterWhere('signature_valid', '=', true).as('received'),
      eb.fn.countAll<number>().filterWhere('status', '=', 'failed').as('failed'),
      eb.fn.countAll<number>().filterWhere('status', '=', 'rejected').as('rejected'),
      eb.fn
        .max<Date | null>('received_at')
        .filterWhere('signature_valid', '=', true)
        .as('lastReceivedAt'),
    ])
    .executeTakeFirstOrThrow()
}

/** Deletes all but the newest `keep` rejected webhooks: forged ones must not fill the disk. */
export async function trimRejected(db: Db, keep: number): Promise<void> {
  await db
    .deleteFrom('webhook_log')
    .where('status', '=', 'rejected')
    .where('id', 'not in', (eb) =>
      eb
        .selectFrom('webhook_log')
        .select('id')
        .where('status', '=', 'rejected')
        .orderBy('received_at', 'desc')
        .limit(keep),
    )
    .execute()
}

/** Deletes at most `limit` webhooks that came before a time and have no next attempt. Returns how many. */
export async function deleteOldWebhooks(db: Db, before: Date, limit: number): Promise<number> {
  const old = sql`received_at < ${before} and next_attempt_at is null order by received_at`
  return deleteOldest(db, 'webhook_log', old, limit)
}

/** Whether another webhook about this resource, which is of an order, was processed before. */
export async function findProcessedWebhook(
  db: Db,
  orderId: string,
  resourceId: string,
  exceptId: string,
): Promise<boolean> {
  const row = await db
    .selectFrom('webhook_log')
    .select('id')
    .where('order_id', '=', orderId)
    .where((eb) => eb(eb.fn<string>('upper', ['resource_id']), '=', resourceId))
    .where('status', '=', 'processed')
    .where('id', '<>', exceptId)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}
