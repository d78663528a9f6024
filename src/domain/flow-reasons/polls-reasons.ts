import type { ReasonTexts } from './reason-texts.ts'

/** Why a poll failed, did not happen, or holds deletes back. */
export const pollReasons = {
  POLL_FAILED: {
    en: 'the poll failed; see the log',
    es: 'la lectura falló; mirá el registro',
  },
  FIELDS_MISSING: {
    en: 'these fields are in none of the records: {fields}. The records have: {found}. Correct the source or the definition, where $exists(field) or optional: true says that it may be missing',
    es: 'estos campos faltan en todos los registros: {fields}. Los registros tienen: {found}. Corregí el origen o la definición, donde $exists(campo) u optional: true dicen que puede faltar',
  },
  DELETES_HELD_EMPTY: {
    en: '{items} deletes wait for an answer: the source is empty',
    es: '{items} bajas esperan respuesta: el origen está vacío',
  },
  DELETES_HELD_MANY: {
    en: '{items} deletes wait for an answer: {percent} % of {known} items vanished at once, more than {most} %',
    es: '{items} bajas esperan respuesta: faltan de golpe {percent} % de {known} ítems, más del {most} %',
  },
  DELETES_HELD_UNREAD: {
    en: '{items} deletes wait for an answer: the source had records that could not be read',
    es: '{items} bajas esperan respuesta: el origen tenía registros que no se pudieron leer',
  },
  DELETES_HELD_OTHER_SOURCE: {
    en: '{items} deletes wait for an answer: the source is another one than before, and this is the first comparison of its items',
    es: '{items} bajas esperan respuesta: el origen es otro que antes, y sus ítems se comparan por primera vez',
  },
  CURSOR_MISSING: {
    en: 'the cursor field {field} (source.cursor.field) is in none of the records, which have: {found}. Select it in the query, or name one of these',
    es: 'el campo del cursor {field} (source.cursor.field) no está en ningún registro; los registros tienen: {found}. Seleccionalo en la consulta, o nombrá uno de estos',
  },
  CURSOR_NOT_A_TIME: {
    en: 'the cursor field has {value}, whose order as text is not that of time; give it as 2026-12-31, or as 2026-12-31T10:00:00',
    es: 'el campo del cursor tiene {value}, que como texto no se ordena por tiempo; dalo como 2026-12-31, o como 2026-12-31T10:00:00',
  },
  CURSOR_AHEAD: {
    en: 'the cursor field {field} of {count} records lies ahead of the time of the read, such as {example}; the cursor ignores them. Correct them at the source',
    es: 'el campo del cursor {field} de {count} registros es posterior al momento de la lectura, por ejemplo {example}; no mueven el cursor. Corregilos en el origen',
  },
  GROUP_APART: {
    en: 'the records of {pk} are not neighbours, so its lists would be cut; order the source by {key}',
    es: 'los registros de {pk} no están juntos, así que sus listas quedarían cortadas; ordená el origen por {key}',
  },
  GROUP_TOO_LARGE: {
    en: 'more than {most} records share one item.key',
    es: 'más de {most} registros tienen la misma item.key',
  },
  GROUP_WITH_NO_RECORD: {
    en: '{what}; with groupBy its item is not known',
    es: '{what}; con groupBy no se sabe de qué ítem es parte',
  },
  KEY_TWICE: {
    en: 'the key is {times} times in the source, first and last at {first} and {last}; the last record counts',
    es: 'la clave está {times} veces en el origen, la primera en {first} y la última en {last}; vale el último registro',
  },
  RECORD_PLACE: { en: '[{file} ]record {record}', es: '[{file} ]registro {record}' },
} as const satisfies ReasonTexts
