/** Why a poll failed, did not happen, or holds deletes back. */
export const polls = {
  POLL_FAILED: 'the poll failed; see the log',
  FIELDS_MISSING:
    'these fields are in none of the records: {fields}. The records have: {found}. Correct the source or the definition, where $exists(field) or optional: true says that it may be missing',
  DELETES_HELD_EMPTY: '{items} deletes wait for an answer: the source is empty',
  DELETES_HELD_MANY:
    '{items} deletes wait for an answer: {percent} % of {known} items vanished at once, more than {most} %',
  DELETES_HELD_UNREAD:
    '{items} deletes wait for an answer: the source had records that could not be read',
  DELETES_HELD_OTHER_SOURCE:
    '{items} deletes wait for an answer: the source is another one than before, and this is the first comparison of its items',
  CURSOR_MISSING:
    'the cursor field {field} (source.cursor.field) is in none of the records, which have: {found}. Select it in the query, or name one of these',
  CURSOR_NOT_A_TIME:
    'the cursor field has {value}, whose order as text is not that of time; give it as 2026-12-31, or as 2026-12-31T10:00:00',
  CURSOR_AHEAD:
    'the cursor field {field} of {count} records lies ahead of the time of the read, such as {example}; the cursor ignores them. Correct them at the source',
  GROUP_APART:
    'the records of {pk} are not neighbours, so its lists would be cut; order the source by {key}',
  GROUP_TOO_LARGE: 'more than {most} records share one item.key',
  GROUP_WITH_NO_RECORD: '{what}; with groupBy its item is not known',
  KEY_TWICE:
    'the key is {times} times in the source, first and last at {first} and {last}; the last record counts',
  RECORD_PLACE: '[{file} ]record {record}',
} as const
