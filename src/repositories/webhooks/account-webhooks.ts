/** After so many webhooks in time the webhooks of an account count as arriving. */
const enoughInTime = 3
/** A webhook that comes so long after the status check that found its change is in time. */
const inTimeMs = 10_000
/** After so long without a webhook the webhooks of an account no longer count as arriving. */
const arrivingForMs = 3600_000
/** How often a row records that the webhooks of its account still arrive. */
const recordedEveryMs = 60_000
/** How many orders without their webhook are stored for an account. */
const ordersAtMost = 50

/** What reported a change of an order first: a webhook or a status check. */
export type ReportedBy = 'webhook' | 'status_check'

/** The values of the parts below. A process ignores what was recorded before its start (`startedAt`). */
export function webhookValues(now: Date, startedAt: Date) {
  const sinceStart = (ms: number) => new Date(Math.max(now.getTime() - ms, startedAt.getTime()))
  return {
    reported_at: now,
    heard_since: sinceStart(arrivingForMs),
    noted_since: sinceStart(recordedEveryMs),
    in_time_since: new Date(now.getTime() - inTimeMs),
  }
}

/** Part of a statement: whether the webhooks of the account of `orders` arrive. */
export const webhooksArrive = `exists (select from account_webhooks w
  where w.mp_user_id = orders.mp_user_id and w.in_time >= ${enoughInTime} and w.untold = '{}'
    and w.heard_at >= :heard_since::timestamptz)`

/**
 * Parts of a statement that moves an order (`moved`), by the reporter of the change. While webhooks arrive as before
 * nothing is written or locked, so that moves of one account do not wait for each other.
 */
export const recordReport: Record<ReportedBy, string> = {
  webhook: `received as (
    update account_webhooks w set heard_at = :reported_at::timestamptz,
      in_time = case when w.untold <> '{}' and w.untold_at < :in_time_since::timestamptz then 1
        else least(w.in_time, ${enoughInTime}) + 1 end,
      untold = case when w.untold_at < :in_time_since::timestamptz then '{}' else array_remove(w.untold, moved.id) end
    from moved where w.mp_user_id = moved.mp_user_id
      and (w.in_time < ${enoughInTime} or w.untold <> '{}' or w.heard_at < :noted_since::timestamptz)
  ), first_heard as (
    insert into account_webhooks (mp_user_id, in_time, heard_at)
    select moved.mp_user_id, 1, :reported_at::timestamptz from moved
    where not exists (select from account_webhooks w where w.mp_user_id = moved.mp_user_id)
    on conflict (mp_user_id) do nothing
  )`,
  status_check: `untold as (
    update account_webhooks w set untold = array_append(w.untold, moved.id), untold_at = :reported_at::timestamptz
    from moved where w.mp_user_id = moved.mp_user_id and cardinality(w.untold) < ${ordersAtMost}
  )`,
}

/** The same for a webhook that changed nothing: a status check may have been a little faster. */
export const recordRepeatedReport = `received as (
  update account_webhooks w set untold = array_remove(w.untold, :id::uuid), heard_at = :reported_at::timestamptz
  where w.mp_user_id = :mp_user_id::bigint and :id::uuid = any(w.untold)
    and w.untold_at >= :in_time_since::timestamptz
)`
