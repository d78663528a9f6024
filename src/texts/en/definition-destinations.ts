/** What is wrong with a definition. Each sentence follows the key, and its `hint` is the likely fix. */
export const definitionDestinations = {
  // Access by OAuth 2.0.
  NEEDS_REFRESH_TOKEN: 'needs refreshToken: the one that the issuer gave with the authorization',
  'NEEDS_REFRESH_TOKEN.hint': 'add refreshToken: ${env:NAME} or ${file:/path}',
  USELESS_WITHOUT_GRANT: 'has no effect without grant: refresh_token',
  'USELESS_WITHOUT_GRANT.hint': 'add grant: refresh_token',

  // Destinations.
  BUDGET_NEEDS_LIMIT: 'needs a rateLimit beside it',
  'BUDGET_NEEDS_LIMIT.hint': 'add the limit of the receiver: rateLimit: { max: 2, per: 1s }',
  NAME_RESERVED: 'is reserved: errors of polls are shown as {name}',
  'NAME_RESERVED.hint': 'choose another name',
  NAME_TAKEN: 'is the name of a destination above',
  'NAME_TAKEN.hint': 'choose another name',
  MAP_AND_FIELDS: 'is beside map; only one of them can make the body',
  'MAP_AND_FIELDS.hint': 'keep map or fields',
  NAMES_NO_FIELD: 'names no field',
  'NAMES_NO_FIELD.hint': 'name some, or leave fields out to send the item itself',
  KEY_NOT_IN_FIELDS: 'is not among the fields, so no row would have a key',
  'KEY_NOT_IN_FIELDS.hint': 'add {column} to fields',
  PAUSE_BEYOND_MAX: 'begins with a pause longer than its max',
  'PAUSE_BEYOND_MAX.hint': 'make max at least {seconds}s',
  REMEMBERED_UNKNOWN: '{placeholder} is nothing that remember names',
  'REMEMBERED_UNKNOWN.hint': 'add remember: { {name}: … }, what it is in the answer',
  CREATE_NEEDS_REMEMBER: 'needs remember: else every change would create the item again',
  'CREATE_NEEDS_REMEMBER.hint': 'add remember: { id: id }',
  FIND_NEEDS_REMEMBER: 'needs remember: it names the values to keep from the answer',
  'FIND_NEEDS_REMEMBER.hint': 'add remember: { id: id }',
  BATCH_NEEDS_REQUEST:
    'needs a request of its own: the address of the single one depends on the item',
  'BATCH_NEEDS_REQUEST.hint': 'add request: { url: https://… }',
  NEEDS_DELETE: 'needs delete, because deletes.mode is delete',
  'NEEDS_DELETE.hint': 'add {example}, or write deletes: { mode: ignore }',
  REFUSES_STORE_DELETES:
    'would refuse every delete: a store that is deleted at Mercado Pago is gone',
  'REFUSES_STORE_DELETES.hint':
    'write allowStoreDelete: true if that is meant, or deletes: { mode: ignore }',
  DELETE_USES_UNMADE:
    'uses body.{name}, which the mapping does not make, so it is not kept for the delete',
  'DELETE_USES_UNMADE.hint': 'make it in fields or map, or use {placeholder}',
  DELETE_USES_UNNAMED:
    'uses remembered.{name}, which remember does not name, so it is not kept for the delete',
  'DELETE_USES_UNNAMED.hint': 'add remember: { {name}: … }, what it is in the answer',
  PATH_CLIMBS: 'must not climb by ..',
  'PATH_CLIMBS.hint': 'write the path from the root, or below the working directory',
  FILE_TAKEN: 'is the file of a destination above; two cannot write one file',
  'FILE_TAKEN.hint': 'give it a file of its own',

  // Alerts.
  NO_SUCH_DESTINATION: 'is not the name of a destination of this flow',
  'NO_SUCH_DESTINATION.hint': '[did you mean {meant}?][there are {known}]',
  MAIL_NOT_SET: 'mail needs the environment variable {name}',
  'MAIL_NOT_SET.hint': 'set {name}',

  // Expressions.
  TOO_MANY_EXPRESSIONS: 'makes more than {most} characters of expressions in one file',
  'TOO_MANY_EXPRESSIONS.hint': 'make two flows of it',
  NO_JSONATA: 'is not JSONata: {what}[ ({place})]',
  USES_EVAL: 'uses $eval, which is not available here ({place})',
  USES_UNKNOWN: 'uses ${name}, which is not known ({place})',
  'USES_UNKNOWN.hint': 'a field of the item is written without $',
  USES_MISSPELT: 'uses ${name}, which is not known ({place})',
  'USES_MISSPELT.hint': 'did you mean ${meant}?',
  IN_EXPRESSION: '[line {line}, ]column {column} of the expression',
} as const
