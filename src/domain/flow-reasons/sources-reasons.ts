import type { ReasonTexts } from './reason-texts.ts'

/** Why a source could not be read: databases, HTTP and servers of files. Those of files themselves follow the name of the file. */
export const sourceReasons = {
  AT_SOURCE: { en: '{source} source: {what}', es: 'origen {source}: {what}' },
  AT_ADDRESS: {
    en: 'http source: {method} {address}[ (page {page})]: {what}',
    es: 'origen http: {method} {address}[ (página {page})]: {what}',
  },
  /** What a driver or the operating system said. */
  SAID: { en: '{said}', es: '{said}' },
  QUERY_NAME_UNKNOWN: {
    en: '{said}. Correct the table or column in source.query, or let the user of the database read it',
    es: '{said}. Corregí la tabla o columna en source.query, o dale permiso de lectura al usuario de la base',
  },
  UNKNOWN: { en: 'unknown', es: 'desconocido' },
  UNKNOWN_FAILURE: { en: 'unknown failure', es: 'falla desconocida' },
  SOURCE_CLOSED: { en: 'the source was closed', es: 'se cerró el origen' },
  TOO_MANY_RECORDS: {
    en: 'the source has more than {most} records (limits.maxRows)',
    es: 'el origen tiene más de {most} registros (limits.maxRows)',
  },
  SILENT: {
    en: 'no answer for {ms} ms (limits.timeout)',
    es: 'sin respuesta durante {ms} ms (limits.timeout)',
  },
  LIST_STANDS_STILL: { en: 'the list does not advance', es: 'la lista no avanza' },

  // Databases.
  COLUMN_WITHOUT_NAME: {
    en: 'the query gives a column without a name; name it',
    es: 'la consulta da una columna sin nombre; dale uno',
  },
  COLUMN_TWICE: {
    en: 'the query gives the column {column} twice; name them apart',
    es: 'la consulta da la columna {column} dos veces; dales nombres distintos',
  },
  COLUMN_TYPE_UNREAD: {
    en: 'the column {column} has a type that is not read; cast it to varchar or timestamp in the query',
    es: 'la columna {column} es de un tipo que no se lee; convertila a varchar o timestamp en la consulta',
  },
  COLUMN_BYTES_NO_TEXT: {
    en: 'the column {column} holds bytes that are no text in {charset}; what has no character set (SQL_ASCII, NONE) is read by what the address says, such as ?charset=WIN1252',
    es: 'la columna {column} tiene bytes que no son texto en {charset}; lo que no tiene juego de caracteres (SQL_ASCII, NONE) se lee según la dirección, por ejemplo ?charset=WIN1252',
  },
  COLUMN_NO_CHARACTERS: {
    en: 'the column {column} holds bytes that are no characters of its collation; correct them at the source',
    es: 'la columna {column} tiene bytes que no son caracteres de su intercalación; corregilos en el origen',
  },
  CHARSET_UNKNOWN: {
    en: 'the address has charset={charset}; known are {known}',
    es: 'la dirección tiene charset={charset}; se conocen {known}',
  },
  NUMBER_TOO_EXACT: {
    en: 'the column {column} holds a number with more digits than can be read exactly; cast it to varchar in the query',
    es: 'la columna {column} tiene un número con más dígitos de los que se leen con exactitud; convertila a varchar en la consulta',
  },
  PARAMETER_WITHOUT_VALUE: {
    en: 'the query has the parameter :{name}, which has no value here. Known: :cursor (when the source has a cursor), those of source.parameters and, in itemQuery, :pk, :key_1 and :key_<field>',
    es: 'la consulta tiene el parámetro :{name}, que acá no tiene valor. Existen :cursor (si el origen tiene cursor), los de source.parameters y, en itemQuery, :pk, :key_1 y :key_<campo>',
  },
  IMPOSSIBLE_VALUE: {
    en: 'a parameter has a value that its column cannot hold',
    es: 'un parámetro tiene un valor que su columna no puede tener',
  },

  // HTTP.
  ANSWERED: {
    en: 'HTTP {status}[ {said}][ {fault}][ (it asks for a pause of {pause} s)]',
    es: 'HTTP {status}[ {said}][ {fault}][ (pide una pausa de {pause} s)]',
  },
  REDIRECTED: {
    en: 'HTTP {status}[ {said}][ {fault}] (redirects to another host are not followed)[ (it asks for a pause of {pause} s)]',
    es: 'HTTP {status}[ {said}][ {fault}] (no se siguen los redireccionamientos a otro host)[ (pide una pausa de {pause} s)]',
  },
  SOAP_FAULT: { en: 'is a SOAP Fault[: {said}]', es: 'es un Fault de SOAP[: {said}]' },
  ANSWER_ERRORS: { en: 'the answer holds errors: {said}', es: 'la respuesta trae errores: {said}' },
  IN_ANSWER: { en: 'the answer {what}', es: 'la respuesta {what}' },
  NOT_TEXT_IN: { en: 'is not text in {charset}', es: 'no es texto en {charset}' },
  LIST_MISPLACED: { en: '{place} is {kind}, not a list', es: '{place} es {kind}, no una lista' },
  THE_ANSWER: { en: 'the answer', es: 'la respuesta' },
  THE_ITEMS: { en: 'items ({path})', es: 'items ({path})' },
  ENTRY_NO_OBJECT: {
    en: 'record {record} of {place} is {kind}, not an object',
    es: 'el registro {record} de {place} es {kind}, no un objeto',
  },
  NO_ENTRY_OBJECT: {
    en: 'no record of {place} is an object: {what}',
    es: 'ningún registro de {place} es un objeto: {what}',
  },
  BROKEN_UNICODE: { en: '{name} holds broken Unicode', es: '{name} tiene Unicode dañado' },
  PATH_VALUE: {
    en: 'a value cannot be in the path of the address (. or ..)',
    es: 'un valor no puede estar en la ruta de la dirección (. o ..)',
  },
  PAGE_INFO_MISSING: {
    en: '{place} has no hasNextPage; the query must ask for hasNextPage and endCursor',
    es: '{place} no tiene hasNextPage; la consulta tiene que pedir hasNextPage y endCursor',
  },
  PAGE_WITHOUT_END_CURSOR: {
    en: '{place} says that there is another page, but has no endCursor',
    es: '{place} dice que hay otra página, pero no tiene endCursor',
  },
  SAME_PAGE: {
    en: 'the same page came twice: does the server know the parameter?',
    es: 'la misma página vino dos veces: ¿conoce el servidor el parámetro?',
  },
  PAGE_READ_ALREADY: {
    en: 'the next page is one that was read already',
    es: 'la página siguiente es una que ya se leyó',
  },
  LIST_LONGER: {
    en: 'the list says that it has {total} records, and {read} were read: set paging, or read the whole list at once',
    es: 'la lista dice que tiene {total} registros, y se leyeron {read}: configurá paging, o leé la lista entera de una vez',
  },
  LIST_HAS_MORE: {
    en: 'the list says that there is another page, and paging does not lead to it: set paging',
    es: 'la lista dice que hay otra página, y paging no llega a ella: configurá paging',
  },
  EMPTY_PAGES: {
    en: 'more than {most} pages in a row without a record',
    es: 'más de {most} páginas seguidas sin un registro',
  },
  KNOWN_PAGES: {
    en: '{most} pages in a row without a new record: does the server know the parameter?',
    es: '{most} páginas seguidas sin un registro nuevo: ¿conoce el servidor el parámetro?',
  },
  NEXT_PAGE_KIND: {
    en: 'paging.next gives {kind}, not a text or a number',
    es: 'paging.next da {kind}, no un texto ni un número',
  },
  NEXT_LINK_NO_ADDRESS: {
    en: 'the link to the next page is no address',
    es: 'el enlace a la página siguiente no es una dirección',
  },
  NEXT_PAGE_ELSEWHERE: {
    en: 'the next page is at another origin ({origin}), which is not called',
    es: 'la página siguiente está en otro origen ({origin}), al que no se llama',
  },
  PAGES_CHANGE: {
    en: 'the records go on changing while their pages are read; after {times} times the next poll reads on',
    es: 'los registros siguen cambiando mientras se leen las páginas; después de {times} veces sigue la próxima lectura',
  },
  ANSWER_TOO_LARGE: {
    en: 'the answer is larger than {bytes} bytes',
    es: 'la respuesta ocupa más de {bytes} bytes',
  },
  REQUEST_GIVEN_UP: { en: 'the request was interrupted', es: 'el pedido se interrumpió' },
  NO_CONNECTION_IN_TIME: {
    en: 'the connection was not made in time',
    es: 'no se pudo conectar a tiempo',
  },
  NOT_ANSWERED: { en: 'no answer ({code})', es: 'sin respuesta ({code})' },
  NOT_A_URL: { en: 'not a URL', es: 'no es una URL' },
  NOT_HTTP: {
    en: 'only http and https addresses are called',
    es: 'sólo se llama a direcciones http y https',
  },
  URL_WITH_USER: {
    en: 'a URL with a user or a password in it is not called; use an authorization header',
    es: 'no se llama a una URL con usuario o contraseña; usá un encabezado authorization',
  },
  NO_ADDRESS: { en: '{host} has no address', es: '{host} no tiene dirección' },
  METADATA_ADDRESS: {
    en: '{host} is a link-local or cloud metadata address, which is never called',
    es: '{host} es una dirección local de enlace o de metadatos de la nube, a la que nunca se llama',
  },
  FIREBIRD_NEEDS_PASSWORD: {
    en: 'the address of Firebird has no password',
    es: 'la dirección de Firebird no tiene clave',
  },
  PRIVATE_ADDRESS: {
    en: '{host} is in a loopback, private or reserved range; allowPrivateNetwork: true opens those',
    es: '{host} está en un rango local, privado o reservado; allowPrivateNetwork: true los habilita',
  },
  NOT_CONNECTED: { en: 'no answer (connection failed)', es: 'sin respuesta (falló la conexión)' },

  // SFTP.
  SERVER_LEFT: { en: 'the server ended the connection', es: 'el servidor cortó la conexión' },
  CONNECTION_CLOSED: { en: 'the connection was closed', es: 'se cerró la conexión' },
  OTHER_HOST_KEY: {
    en: 'the server shows the host key {key} ({type}), which is not source.hostKey; nothing was sent to it',
    es: 'el servidor muestra la clave {key} ({type}), que no es la de source.hostKey; no se le envió nada',
  },
  NO_SFTP: {
    en: 'the server has no SFTP for this user: {said}',
    es: 'el servidor no da SFTP a este usuario: {said}',
  },
  PRIVATE_KEY_UNREADABLE: { en: 'source.privateKey: {said}', es: 'source.privateKey: {said}' },
  USER_REFUSED: {
    en: 'the server refuses the user, or its password or key',
    es: 'el servidor rechaza al usuario, su contraseña o su clave',
  },
  SERVER_SILENT: {
    en: 'the server does not answer any more',
    es: 'el servidor ya no responde',
  },
} as const satisfies ReasonTexts
