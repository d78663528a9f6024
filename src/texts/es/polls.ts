/** Why a poll failed, did not happen, or holds deletes back. */
export const polls = {
  POLL_FAILED: 'la lectura falló; mirá el registro',
  FIELDS_MISSING:
    'estos campos faltan en todos los registros: {fields}. Los registros tienen: {found}. Corregí el origen o la definición, donde $exists(campo) u optional: true dicen que puede faltar',
  DELETES_HELD_EMPTY: '{items} bajas esperan respuesta: el origen está vacío',
  DELETES_HELD_MANY:
    '{items} bajas esperan respuesta: faltan de golpe {percent} % de {known} ítems, más del {most} %',
  DELETES_HELD_UNREAD:
    '{items} bajas esperan respuesta: el origen tenía registros que no se pudieron leer',
  DELETES_HELD_OTHER_SOURCE:
    '{items} bajas esperan respuesta: el origen es otro que antes, y sus ítems se comparan por primera vez',
  CURSOR_MISSING:
    'el campo del cursor {field} (source.cursor.field) no está en ningún registro; los registros tienen: {found}. Seleccionalo en la consulta, o nombrá uno de estos',
  CURSOR_NOT_A_TIME:
    'el campo del cursor tiene {value}, que como texto no se ordena por tiempo; dalo como 2026-12-31, o como 2026-12-31T10:00:00',
  CURSOR_AHEAD:
    'el campo del cursor {field} de {count} registros es posterior al momento de la lectura, por ejemplo {example}; no mueven el cursor. Corregilos en el origen',
  GROUP_APART:
    'los registros de {pk} no están juntos, así que sus listas quedarían cortadas; ordená el origen por {key}',
  GROUP_TOO_LARGE: 'más de {most} registros tienen la misma item.key',
  GROUP_WITH_NO_RECORD: '{what}; con groupBy no se sabe de qué ítem es parte',
  KEY_TWICE:
    'la clave está {times} veces en el origen, la primera en {first} y la última en {last}; vale el último registro',
  RECORD_PLACE: '[{file} ]registro {record}',
} as const
