import { access } from './en/access.ts'
import { alerts } from './en/alert-failures.ts'
import { databases } from './en/databases.ts'
import { definitionValues } from './en/definition.ts'
import { definitionAddresses } from './en/definition-addresses.ts'
import { definitionDestinations } from './en/definition-destinations.ts'
import { definitionFiles } from './en/definition-files.ts'
import { definitionSources } from './en/definition-sources.ts'
import { deliveries } from './en/deliveries.ts'
import { files } from './en/files.ts'
import { items } from './en/items.ts'
import { pauses } from './en/pauses.ts'
import { polls } from './en/polls.ts'
import { refusals } from './en/refusals.ts'
import { sources } from './en/sources.ts'
import type { TextKey } from './texts.ts'

type Group = {
  /** The code of those that have none of their own. */
  code: string
  texts: readonly object[]
  /** Reasons that a program decides by, under their own code. */
  own: readonly TextKey[]
}

/** The codes of reasons that answers of the control API have. Each other reason has the code of its group, and its sentence. */
export const codeGroups: readonly Group[] = [
  { code: 'PAUSED', texts: [pauses], own: Object.keys(pauses) as (keyof typeof pauses)[] },
  {
    code: 'POLL_FAILED',
    texts: [polls],
    own: [
      'FIELDS_MISSING',
      'DELETES_HELD_EMPTY',
      'DELETES_HELD_MANY',
      'DELETES_HELD_UNREAD',
      'DELETES_HELD_OTHER_SOURCE',
      'CURSOR_MISSING',
      'CURSOR_NOT_A_TIME',
      'CURSOR_AHEAD',
      'GROUP_APART',
      'GROUP_TOO_LARGE',
      'KEY_TWICE',
    ],
  },
  {
    code: 'SOURCE_FAILED',
    texts: [sources],
    own: [
      'TOO_MANY_RECORDS',
      'ANSWERED',
      'REDIRECTED',
      'ANSWER_TOO_LARGE',
      'LIST_STANDS_STILL',
      'LIST_LONGER',
      'LIST_HAS_MORE',
      'SILENT',
      'NOT_ANSWERED',
      'NO_CONNECTION_IN_TIME',
      'NOT_CONNECTED',
      'CONNECTION_CLOSED',
      'SERVER_SILENT',
      'USER_REFUSED',
      'OTHER_HOST_KEY',
      'METADATA_ADDRESS',
      'PRIVATE_ADDRESS',
    ],
  },
  {
    code: 'FILE_UNREADABLE',
    texts: [files],
    own: [
      'NO_FILE',
      'FILE_SETTLING',
      'FILE_WITHOUT_MARKER',
      'FILE_TOO_LARGE',
      'TOO_MANY_FILES',
      'FILE_NOT_ARCHIVED',
      'FILE_NOT_DELETED',
      'EMPTY',
    ],
  },
  {
    code: 'ITEM_UNUSABLE',
    texts: [items],
    own: [
      'ITEM_FILTER_FALSE',
      'ITEM_KEY_MISSING',
      'ITEM_TOO_LONG',
      'EXPRESSION_FAILED',
      'EXPRESSION_TOO_SLOW',
      'MAP_FAILED',
      'FIELDS_NOT_CONVERTED',
      'DELETE_NEEDS',
    ],
  },
  {
    code: 'DELIVERY_REFUSED',
    texts: [deliveries],
    own: [
      'NEVER_SENT',
      'FILTERED_OUT',
      'STILL_THERE',
      'SAME_BODY',
      'DELETE_CLAIMED',
      'DELETE_WAITS',
      'DELETE_ALIKE',
      'MAPPED_TO_NOTHING',
      'MAPPING_TIMEOUT',
      'MAPPING_EMPTY',
      'NO_DELETE_REQUEST',
      'HTTP_STATUS',
      'HTTP_REDIRECT',
      'FOREIGN_ANSWER',
      'ANSWER_DIFFERS',
      'GONE',
      'LOOKUP_UNCLEAR',
      'LOOKUP_INCOMPLETE',
      'LOOKUP_DIFFERS',
      'NOT_REMEMBERED',
      'PAYMENTS_REFUSED',
      'NO_CLIENT',
      'NO_ANSWER',
      'NO_WHOLE_ANSWER',
      'NO_ANSWER_AT_ALL',
      'ADDRESS_REFUSED',
      'GIVEN_UP',
      'FILE_NOT_WRITABLE',
      'UNEXPECTED',
    ],
  },
  {
    code: 'SQL_REFUSED',
    texts: [databases],
    own: [
      'ROW_IN_THE_WAY',
      'REFERENCE_MISSING',
      'TEXT_TOO_LONG',
      'NUMBER_TOO_LARGE',
      'VALUE_MISSING',
      'CHECK_FAILED',
      'NO_WRITE_PERMISSION',
      'NO_UNIQUE_INDEX',
      'DATABASE_BUSY',
      'DATABASE_DOWN',
      'DATABASE_SILENT',
      'TOO_MANY_CONNECTIONS',
    ],
  },
  {
    code: 'TOKEN_FAILED',
    texts: [access],
    own: [
      'TOKEN_REFUSED',
      'ACCESS_LOST_KEY',
      'ACCESS_LOST_FIRST',
      'ACCESS_LOST_LATER',
      'ACCESS_LOST_CUT',
    ],
  },
  { code: 'ALERT_NOT_SENT', texts: [alerts], own: ['MAIL_NOT_SET_UP', 'MAIL_LOGIN_REFUSED'] },
  {
    code: 'DEFINITION_WRONG',
    texts: [
      definitionValues,
      definitionAddresses,
      definitionSources,
      definitionDestinations,
      definitionFiles,
    ],
    own: ['UNKNOWN_KEY', 'KEY_MISSING'],
  },
  {
    code: 'REQUEST_REFUSED',
    texts: [refusals],
    own: [
      'WORKBENCH_OFF',
      'WORKBENCH_OPEN_TO_ALL',
      'WORKBENCH_ANONYMOUS',
      'FLOWS_FOLDER_READ_ONLY',
    ],
  },
]

const published = new Map(
  codeGroups.flatMap(({ code, texts, own }) =>
    texts.flatMap(Object.keys).map((key) => [key, own.some((one) => one === key) ? key : code]),
  ),
)

/** The published code of a reason; that of a reason of another version is its own. */
export function publishedCode(code: string): string {
  return published.get(code) ?? code
}

/** The reasons that have a published code. */
export function reasonsOfCode(code: string): string[] {
  return [...published].filter(([, one]) => one === code).map(([reason]) => reason)
}
