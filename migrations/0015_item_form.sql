-- Of the part of the definition that decides how an item looks, as it was at the last poll: the hashes are comparable with it.
alter table flow_state add column item_form text;
