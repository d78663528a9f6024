/** Why a delivery failed: what a database answered. `{code}` is SQLSTATE or an error number. */
export const databases = {
  OWN_DATABASE: 'the address leads to the database of the service itself, which no flow may use',
  ROW_IN_THE_WAY:
    'another row has the same unique value ({code})[, column {column}][, constraint {constraint}]',
  ROW_IN_THE_WAY_ALIKE:
    'another row has the same unique value, or one that its column does not tell apart (case, accents, blanks at the end) ({code})',
  ROW_LOOKS_ALIKE:
    'a row is there whose key differs only in what its column does not tell apart, such as case or accents; give the columns of upsertKey a binary collation',
  REFERENCE_MISSING:
    'a row that this one refers to is missing, or others still refer to it ({code})[, column {column}][, constraint {constraint}]',
  TEXT_TOO_LONG: 'a text is too long for its column ({code})[, column {column}]',
  NUMBER_TOO_LARGE: 'a number is too large for its column ({code})[, column {column}]',
  DATE_UNREADABLE: 'a date cannot be read ({code})[, column {column}]',
  DATE_OUT_OF_RANGE: 'a date is out of range ({code})[, column {column}]',
  VALUE_TYPE: 'a value does not fit the type of its column ({code})[, column {column}]',
  BAD_CHARACTER:
    'a text holds a character that the database cannot keep ({code})[, column {column}]',
  BAD_KEY_CHARACTER: 'the key has a character that its column cannot hold ({code})',
  VALUE_MISSING: 'a required column has no value ({code})[, column {column}]',
  CHECK_FAILED: 'a check of the table refused the row ({code})[, constraint {constraint}]',
  NO_WRITE_PERMISSION: 'the user may not write to the table ({code})',
  NO_UNIQUE_INDEX: 'the table has no unique index on the columns of upsertKey ({code})',
  SQL_SAID: '{said} ({code})[, column {column}][, constraint {constraint}]',
  SQL_REFUSED: 'refused ({code})[, column {column}][, constraint {constraint}]',
  DATABASE_BUSY: 'the database was busy ({code})',
  LOCK_TIMEOUT: 'a lock was not free in time ({code})',
  STATEMENT_TIMEOUT: 'the statement took too long ({code})',
  STATEMENT_CANCELLED: 'the statement took too long, or another session ended it ({code})',
  DATABASE_DOWN: 'the database refuses connections ({code})',
  DATABASE_SILENT: 'no answer from the database[ ({code})]',
  DATABASE_LATE: 'no answer from the database in time ({code})',
  CONNECTION_FILE: '{said}',
  TOO_MANY_CONNECTIONS: 'too many deliveries to this server at a time',
} as const
