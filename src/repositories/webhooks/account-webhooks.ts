/** So many webhooks in time make an account one whose webhooks arrive. */
const enoughInTime = 3
/** A webhook that comes so long after a look has found its news has still come in time. */
const inTimeMs = 10_000
/** What was not heard of for so long is not known to arrive. */
const heardForMs = 3600_000
/** So often it is written down that the webhooks of an account still arrive. */
const notedEveryMs = 60_000
/** Untold orders that are remembered of one account. */
const untoldAtMost = 50

/** Who told of an order: a webhook, or a look that found news of which no webhook had told. */
export type ToldBy = 'webhook' | 'look'

/** The values of the parts below. A process does not believe what was last heard before its start (`startedAt`). */
export function webhookValues(now: Date, startedAt: Date) {
  const sinceStart = (ms: number) => new Date(Math.max(now.getTime() - ms, startedAt.getTime()))
  return {
    told_at: now,
    heard_since: sinceStart(heardForMs),
    noted_since: sinceStart(notedEveryMs),
    in_time_since: new Date(now.getTime() - inTimeMs),
  }
}

/** Part of a statement: whether the webhooks of the account of `orders` arrive. */
export const webhooksArrive = `exists (select from account_webhooks w
  where w.mp_user_id = orders.mp_user_id and w.in_time >= ${enoughInTime} and w.untold = '{}'
    and w.heard_at >= :heard_since::timestamptz)`

/**
 * Parts of a statement that moves an order (`moved`): a webhook has brought its news, or a look has. Where webhooks arrive as
 * they did before, nothing is written and no row locked, so that those of one account do not wait for each other.
 */
export const noteNews: Record<ToldBy, string> = {
  webhook: `heard as (
    update account_webhooks w set heard_at = :told_at::timestamptz,
      in_time = case when w.untold <> '{}' and w.untold_at < :in_time_since::timestamptz then 1
        else least(w.in_time, ${enoughInTime}) + 1 end,
      untold = case when w.untold_at < :in_time_since::timestamptz then '{}' else array_remove(w.untold, moved.id) end
    from moved where w.mp_user_id = moved.mp_user_id
      and (w.in_time < ${enoughInTime} or w.untold <> '{}' or w.heard_at < :noted_since::timestamptz)
  ), first_heard as (
    insert into account_webhooks (mp_user_id, in_time, heard_at)
    select moved.mp_user_id, 1, :told_at::timestamptz from moved
    where not exists (select from account_webhooks w where w.mp_user_id = moved.mp_user_id)
    on conflict (mp_user_id) do nothing
  )`,
  look: `untold as (
    update account_webhooks w set untold = array_append(w.untold, moved.id), untold_at = :told_at::timestamptz
    from moved where w.mp_user_id = moved.mp_user_id and cardinality(w.untold) < ${untoldAtMost}
  )`,
}

/** The same for a webhook that brought nothing new: perhaps a look was quicker by a little. */
export const noteRepeat = `heard as (
  update account_webhooks w set untold = array_remove(w.untold, :id::uuid), heard_at = :told_at::timestamptz
  where w.mp_user_id = :mp_user_id::bigint and :id::uuid = any(w.untold)
    and w.untold_at >= :in_time_since::timestamptz
)`
