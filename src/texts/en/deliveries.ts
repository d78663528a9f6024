/** Why a delivery was skipped, or failed: before anything was sent, by the answer, or without one. */
export const deliveries = {
  // Why a delivery was skipped.
  NEVER_SENT: 'nothing of it was sent to the destination',
  FILTERED_OUT: 'the filter of the destination leaves it out',
  STILL_THERE: '{what}; the destination still has what was delivered before',
  SAME_BODY: 'the destination has the same body already',
  DELETE_CLAIMED: 'not deleted: {pk} of the flow {flow} has the same identity there',
  DELETE_WAITS:
    'not deleted yet: {pk} of the flow {flow} has the same identity there; it waits until that flow misses it too',
  MAPPED_TO_NOTHING: 'the mapping gives nothing for it',

  // Why a delivery failed: before anything was sent.
  MAPPING_TIMEOUT: '{said}',
  MAPPING_EMPTY: 'the mapping made nothing of the item',
  NOT_DELIVERED_BODY:
    'the delete needs the body as it was delivered, and that is not on record: delete it at the destination by hand',
  DELETE_ALIKE:
    'not deleted: the destination may take it for {pk} of the flow {flow}, whose identity is written almost the same; delete it there by hand if it is another one',
  NO_DELETE_REQUEST: 'the destination has no delete request',
  NO_OBJECT: 'the destination needs an object, the mapping gave {kind}',
  KEY_WITHOUT_VALUE: 'the mapping gave no value for the key: {columns}',
  KEY_EMPTY: 'the key column {column} would be empty: map a value for it',
  TOO_MANY_COLUMNS: 'a row has at most {most} columns',
  BYTES_WITHOUT_FORM:
    'the column {column} takes bytes: say what its text is, with binary: { {column}: base64 } or { {column}: text } at the destination',
  NO_BASE64: 'the column {column} takes bytes, and its text is no base64',
  FIELD_TAKEN: 'the service uses the field {field}; map it to another name',
  FOREIGN_FILE: 'the file there was not written by this destination',
  NO_COLUMN: 'the file has no column for {fields}; begin a new file',
  NO_STORE_DELETE:
    'a store is only deleted with deletes.mode: delete and allowStoreDelete: true, since that cannot be undone',
  POS_TWICE: 'pos: an external_id is twice in the list',
  BAD_HEADER: 'a header has a value that cannot be sent',

  // Why a delivery failed: what the receiver answered.
  HTTP_STATUS: 'HTTP {status}[ to {to}][ {said}]',
  HTTP_REDIRECT: 'HTTP {status}[ to {to}][ {said}] (redirects are not followed)',
  FOREIGN_ANSWER: 'HTTP {status}[ to {to}] {what}: it is not an answer of this API',
  ANSWER_DIFFERS: 'HTTP {status}, but the answer differs from what was sent: {said}',
  BODY_IS_PAGE: 'with an HTML page',
  BODY_IS_EMPTY: 'without a body',
  BODY_NO_OBJECT: 'without a JSON object',
  GONE: 'HTTP {status}: the receiver no longer has it; the flow creates it again',
  LOOKUP_GONE: 'HTTP {status}: the receiver does not have the item',
  LOOKUP_UNCLEAR: 'the look-up (HTTP {status}) {said}',
  LOOKUP_INCOMPLETE: 'the look-up (HTTP {status}) does not have every value of remember',
  LOOKUP_DIFFERS: 'the look-up (HTTP {status}) shows another value of remember than the stored one',
  NOT_REMEMBERED:
    'the answer (HTTP {status}) does not have the values of remember[: it {said}]; the item may exist by now',
  BATCH_TOO_LARGE: 'the answer to the batch is too large to be read',
  BATCH_REFUSED: 'the answer to the batch refuses it',
  BATCH_GONE: 'the receiver has it no longer',
  BATCH_APART: 'it goes alone',
  BATCH_AGAIN: 'the answer to the batch asks for another attempt',
  BATCH_SAID: '{said}',
  BATCH_UNKNOWN: 'it answers {said}',
  BATCH_EMPTY: 'the batch has no answer',
  PAYMENTS_REFUSED: '{what}[: {said}]',
  NO_CLIENT: 'There is no client {client}',

  NO_ANSWER: 'no answer within {seconds} s',
  NO_WHOLE_ANSWER: 'no whole answer within {ms} ms',
  NO_ANSWER_AT_ALL: 'no answer',
  ADDRESS_REFUSED: '{said}',
  GIVEN_UP: 'the delivery was interrupted',
  PERMIT_LOST: 'the right to send was lost',
  FILE_NOT_WRITABLE: 'the file cannot be written: {said}',
  UNEXPECTED: 'the destination failed unexpectedly; see the log',
} as const
