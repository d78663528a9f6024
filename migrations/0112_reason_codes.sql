-- expand: the version before reads and writes the sentences, which stay
-- Why something of a flow is as it is: a code and its data, {"code": "HTTP_STATUS", "data": {"status": 422}}. Null where the version
-- before wrote a sentence alone.
alter table flow_pause add column why jsonb;
alter table flow_activity add column why jsonb;
alter table deliveries add column why jsonb;
alter table item_attempts add column why jsonb;
alter table flow_errors add column why jsonb;
alter table flow_polls add column why jsonb;
alter table held_deletes add column why jsonb;
alter table destination_states add column why jsonb;

-- What the version before says when it pauses or resumes a flow.
create function flow_sentence_code(sentence text) returns text language sql immutable as $$
  select case sentence
    when 'The limit of runs was reached' then 'RUN_LIMIT_REACHED'
    when 'definition missing' then 'DEFINITION_MISSING'
    when 'the definition is back' then 'DEFINITION_BACK'
    when 'The definition changed. Resume: keep what was sent. Resync with force: send everything again' then 'DEFINITION_CHANGED'
    when 'the definition asks nothing any more' then 'DEFINITION_SETTLED'
    when 'the destinations are those of before, or were asked about anew' then 'DESTINATION_SETTLED'
    when 'Everything was forgotten: it is sent again once the flow is resumed' then 'EVERYTHING_FORGOTTEN'
    when 'startPaused in the flow file' then 'START_PAUSED'
    when 'FLOWS_START_PAUSED' then 'ALL_START_PAUSED'
  end
$$;

-- A pause decides what a flow does, so one that the version before sets during an upgrade gets its code, too.
create function flow_pause_code() returns trigger language plpgsql as $$
declare
  found text;
begin
  if tg_op = 'UPDATE' and new.reason is distinct from old.reason and new.why is not distinct from old.why then
    new.why := null;
  end if;
  if new.why is null and new.paused_by = 'service' then
    found := coalesce(new.code, flow_sentence_code(new.reason));
    new.why := case when found is not null then jsonb_build_object('code', found) end;
  end if;
  return new;
end
$$;
create trigger flow_pause_code before insert or update on flow_pause
  for each row execute function flow_pause_code();

update flow_pause set reason = reason;
update flow_activity set why = jsonb_build_object('code', flow_sentence_code(detail))
where actor = 'service' and flow_sentence_code(detail) is not null;
