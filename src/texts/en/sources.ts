/** Why a source could not be read: databases, HTTP and servers of files. Those of files themselves follow the name of the file. */
export const sources = {
  AT_SOURCE: '{source} source: {what}',
  AT_ADDRESS: 'http source: {method} {address}[ (page {page})]: {what}',
  SAID: '{said}',
  QUERY_NAME_UNKNOWN:
    '{said}. Correct the table or column in source.query, or let the user of the database read it',
  UNKNOWN: 'unknown',
  UNKNOWN_FAILURE: 'unknown failure',
  SOURCE_CLOSED: 'the source was closed',
  TOO_MANY_RECORDS: 'the source has more than {most} records (limits.maxRows)',
  SILENT: 'no answer for {ms} ms (limits.timeout)',
  LIST_STANDS_STILL: 'the list does not advance',

  // Databases.
  COLUMN_WITHOUT_NAME: 'the query gives a column without a name; name it',
  COLUMN_TWICE: 'the query gives the column {column} twice; name them apart',
  COLUMN_TYPE_UNREAD:
    'the column {column} has a type that is not read; cast it to varchar or timestamp in the query',
  COLUMN_BYTES_NO_TEXT:
    'the column {column} holds bytes that are no text in {charset}; what has no character set (SQL_ASCII, NONE) is read by what the address says, such as ?charset=WIN1252',
  COLUMN_NO_CHARACTERS:
    'the column {column} holds bytes that are no characters of its collation; correct them at the source',
  CHARSET_UNKNOWN: 'the address has charset={charset}; known are {known}',
  NUMBER_TOO_EXACT:
    'the column {column} holds a number with more digits than can be read exactly; cast it to varchar in the query',
  PARAMETER_WITHOUT_VALUE:
    'the query has the parameter :{name}, which has no value here. Known: :cursor (when the source has a cursor), those of source.parameters and, in itemQuery, :pk, :key_1 and :key_<field>',
  IMPOSSIBLE_VALUE: 'a parameter has a value that its column cannot hold',

  // HTTP.
  ANSWERED: 'HTTP {status}[ {said}][ {fault}][ (it asks for a pause of {pause} s)]',
  REDIRECTED:
    'HTTP {status}[ {said}][ {fault}] (redirects to another host are not followed)[ (it asks for a pause of {pause} s)]',
  SOAP_FAULT: 'is a SOAP Fault[: {said}]',
  ANSWER_ERRORS: 'the answer holds errors: {said}',
  IN_ANSWER: 'the answer {what}',
  NOT_TEXT_IN: 'is not text in {charset}',
  LIST_MISPLACED: '{place} is {kind}, not a list',
  THE_ANSWER: 'the answer',
  THE_ITEMS: 'items ({path})',
  ENTRY_NO_OBJECT: 'record {record} of {place} is {kind}, not an object',
  NO_ENTRY_OBJECT: 'no record of {place} is an object: {what}',
  BROKEN_UNICODE: '{name} holds broken Unicode',
  PATH_VALUE: 'a value cannot be in the path of the address (. or ..)',
  PAGE_INFO_MISSING: '{place} has no hasNextPage; the query must ask for hasNextPage and endCursor',
  PAGE_WITHOUT_END_CURSOR: '{place} says that there is another page, but has no endCursor',
  SAME_PAGE: 'the same page came twice: does the server know the parameter?',
  PAGE_READ_ALREADY: 'the next page is one that was read already',
  LIST_LONGER:
    'the list says that it has {total} records, and {read} were read: set paging, or read the whole list at once',
  LIST_HAS_MORE:
    'the list says that there is another page, and paging does not lead to it: set paging',
  EMPTY_PAGES: 'more than {most} pages in a row without a record',
  KNOWN_PAGES: '{most} pages in a row without a new record: does the server know the parameter?',
  NEXT_PAGE_KIND: 'paging.next gives {kind}, not a text or a number',
  NEXT_LINK_NO_ADDRESS: 'the link to the next page is no address',
  NEXT_PAGE_ELSEWHERE: 'the next page is at another origin ({origin}), which is not called',
  PAGES_CHANGE:
    'the records go on changing while their pages are read; after {times} times the next poll reads on',
  ANSWER_TOO_LARGE: 'the answer is larger than {bytes} bytes',
  REQUEST_GIVEN_UP: 'the request was interrupted',
  NO_CONNECTION_IN_TIME: 'the connection to {place} was not made in time',
  NOT_ANSWERED: 'no answer from {place} ({code})',
  NOT_A_URL: 'not a URL',
  NOT_HTTP: 'only http and https addresses are called',
  URL_WITH_USER: 'a URL with a user or a password in it is not called; use an authorization header',
  NO_ADDRESS: '{host} has no address',
  METADATA_ADDRESS: '{host} is a link-local or cloud metadata address, which is never called',
  FIREBIRD_NEEDS_PASSWORD: 'the address of Firebird has no password',
  PRIVATE_ADDRESS:
    '{host} is in a loopback, private or reserved range; allowPrivateNetwork: true opens those',
  NOT_CONNECTED: 'no answer from {place} (connection failed)',

  // SFTP.
  SERVER_LEFT: 'the server ended the connection',
  CONNECTION_CLOSED: 'the connection was closed',
  OTHER_HOST_KEY:
    'the server shows the host key {key} ({type}), which is not source.hostKey; nothing was sent to it',
  NO_SFTP: 'the server has no SFTP for this user: {said}',
  PRIVATE_KEY_UNREADABLE: 'source.privateKey: {said}',
  USER_REFUSED: 'the server refuses the user, or its password or key',
  SERVER_SILENT: 'the server does not answer any more',
} as const
