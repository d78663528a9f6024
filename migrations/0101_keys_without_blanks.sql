-- alone: polls of the version before keep the blanks, and would take each changed key for an item that is gone and one that is new
-- Keys of CHAR(n) columns were stored with the blanks that fill them up. A key is its text without blanks at its end now: an item is
-- known by one key, whichever way it comes. Where it was stored in several ways, the shortest is the item's.
delete from flow_items as padded using (
  select ctid, row_number() over (partition by flow, regexp_replace(pk, ' +(?=\||$)', '', 'g') order by length(pk)) as place
  from flow_items where pk ~ ' (\||$)'
) as ranked
where padded.ctid = ranked.ctid and (ranked.place > 1 or exists (
  select 1 from flow_items as item
  where item.flow = padded.flow and item.pk = regexp_replace(padded.pk, ' +(?=\||$)', '', 'g')));
delete from delete_approvals as padded using (
  select ctid, row_number() over (partition by flow, regexp_replace(pk, ' +(?=\||$)', '', 'g') order by length(pk)) as place
  from delete_approvals where pk ~ ' (\||$)'
) as ranked
where padded.ctid = ranked.ctid and (ranked.place > 1 or exists (
  select 1 from delete_approvals as item
  where item.flow = padded.flow and item.pk = regexp_replace(padded.pk, ' +(?=\||$)', '', 'g')));
delete from remembered_values as padded using (
  select ctid, row_number() over (partition by flow, destination, regexp_replace(pk, ' +(?=\||$)', '', 'g') order by length(pk)) as place
  from remembered_values where pk ~ ' (\||$)'
) as ranked
where padded.ctid = ranked.ctid and (ranked.place > 1 or exists (
  select 1 from remembered_values as item
  where item.flow = padded.flow and item.destination = padded.destination and item.pk = regexp_replace(padded.pk, ' +(?=\||$)', '', 'g')));
delete from deliveries as padded using (
  select ctid, row_number() over (partition by flow, destination, regexp_replace(pk, ' +(?=\||$)', '', 'g') order by length(pk)) as place
  from deliveries where pk ~ ' (\||$)'
) as ranked
where padded.ctid = ranked.ctid and (ranked.place > 1 or exists (
  select 1 from deliveries as item
  where item.flow = padded.flow and item.destination = padded.destination and item.pk = regexp_replace(padded.pk, ' +(?=\||$)', '', 'g')));
update flow_items set pk = regexp_replace(pk, ' +(?=\||$)', '', 'g') where pk ~ ' (\||$)';
update delete_approvals set pk = regexp_replace(pk, ' +(?=\||$)', '', 'g') where pk ~ ' (\||$)';
update remembered_values set pk = regexp_replace(pk, ' +(?=\||$)', '', 'g') where pk ~ ' (\||$)';
update deliveries set pk = regexp_replace(pk, ' +(?=\||$)', '', 'g') where pk ~ ' (\||$)';
update item_versions set pk = regexp_replace(pk, ' +(?=\||$)', '', 'g') where pk ~ ' (\||$)';
update item_attempts set pk = regexp_replace(pk, ' +(?=\||$)', '', 'g') where pk ~ ' (\||$)';
