-- expand: the version before goes on with flow_alerts, which this one only reads here; a later release drops it
-- Messages about failed deliveries wait in alert_messages like all others; here the failures that each receiver is notified of
-- together. Conditions of flows are states of the fleet now: what waits about them is raised anew from there.
create table failure_groups (
  flow text not null,
  -- Of the receiver as the flow file names it; no secret.
  channel text not null,
  destination text not null,
  -- Failures since the last message was written, the first of them, and a few examples.
  pending integer not null default 0,
  first_pending_at timestamptz,
  examples jsonb not null default '[]',
  -- Set while the receiver believes that something is wrong.
  firing boolean not null default false,
  firing_since timestamptz,
  last_sent_at timestamptz,
  -- Messages written so far; part of their ids.
  messages integer not null default 0,
  -- The message in alert_messages that is on its way.
  message_id text,
  primary key (flow, channel, destination)
);

insert into failure_groups (flow, channel, destination, pending, first_pending_at, examples, firing, firing_since, last_sent_at,
    messages, message_id)
  select flow, channel, subject, pending, first_pending_at, examples, firing, firing_since, last_sent_at, messages, message ->> 'id'
  from flow_alerts where kind = 'failures';

insert into alert_messages (channel, id, message, created_at, attempts, next_attempt_at)
  select flow || '/' || channel, message ->> 'id',
    message || jsonb_build_object('kind', case message ->> 'kind'
      when 'failed' then 'deliveries_failed'
      when 'reminder' then 'deliveries_still_failed'
      else 'deliveries_recovered' end),
    (message ->> 'at')::timestamptz, attempts, next_attempt_at
  from flow_alerts where kind = 'failures' and message is not null
  on conflict do nothing;
