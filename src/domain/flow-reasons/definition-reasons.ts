// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are the texts of flow files
import type { ReasonTexts } from './reason-texts.ts'

/** What is wrong with a definition. Each sentence follows the key, and its `hint` is the likely fix. */
export const definitionReasons = {
  // What kind of value a key has.
  TYPE_TEXT: { en: 'a text', es: 'un texto' },
  TYPE_WHOLE_NUMBER: { en: 'a whole number', es: 'un número entero' },
  TYPE_BOOLEAN: { en: 'true or false', es: 'true o false' },
  TYPE_GROUP: { en: 'a group of keys', es: 'un grupo de claves' },

  // What the schema says.
  KEY_MISSING: {
    en: 'is missing',
    es: 'falta',
  },
  UNKNOWN_KEY: {
    en: 'is not a known key',
    es: 'no es una clave conocida',
    hint: {
      en: '[did you mean {meant}?][it belongs to {home}][known here: {known}]',
      es: '[¿quisiste decir {meant}?][es de {home}][acá se conocen: {known}]',
    },
  },
  TOP_OF_FILE: { en: 'the top of the file', es: 'el comienzo del archivo' },
  UNUSABLE_KEY: { en: 'is not a usable key', es: 'no sirve como clave' },
  WRONG_TYPE: {
    en: 'must be {expected}, not {found}',
    es: 'tiene que ser {expected}, no {found}',
  },
  WRITE_IN_QUOTES: { en: 'put it in quotes', es: 'ponelo entre comillas' },
  WRITE_IN_QUOTES_OR_LINES: {
    en: 'put it in quotes, or on its own lines after |',
    es: 'ponelo entre comillas, o en líneas propias después de |',
  },
  WRITE_A_LIST: {
    en: 'write [a, b], or a line with - for each entry',
    es: 'escribí [a, b], o una línea con - para cada entrada',
  },
  WRITE_TRUE_OR_FALSE: {
    en: 'write true or false, no quotes',
    es: 'escribí true o false, sin comillas',
  },
  WRITE_THE_NUMBER: { en: 'write the number, no quotes', es: 'escribí el número, sin comillas' },
  GIVE_A_VALUE: {
    en: 'give it a value, or leave the key out',
    es: 'dale un valor, o sacá la clave',
  },
  WRONG_CHOICE: {
    en: 'must be {options}',
    es: 'tiene que ser {options}',
  },
  ONE_OF: { en: 'one of {options}', es: 'uno de {options}' },
  MEANT: { en: 'did you mean {word}?', es: '¿quisiste decir {word}?' },
  WRITE_WITHOUT_QUOTES: { en: 'write {word}, no quotes', es: 'escribí {word}, sin comillas' },
  TOO_FEW_ENTRIES: { en: 'must have at least {entries}', es: 'tiene que tener al menos {entries}' },
  TOO_MANY_ENTRIES: {
    en: 'must have at most {entries}',
    es: 'tiene que tener {entries} como máximo',
  },
  ONE_ENTRY: { en: '1 entry', es: '1 entrada' },
  ENTRIES: { en: '{count} entries', es: '{count} entradas' },
  MUST_NOT_BE_EMPTY: { en: 'must not be empty', es: 'no puede estar vacío' },
  AT_LEAST_CHARACTERS: {
    en: 'must be at least {limit} characters',
    es: 'tiene que tener al menos {limit} caracteres',
  },
  AT_MOST_CHARACTERS: {
    en: 'must be at most {limit} characters',
    es: 'tiene que tener {limit} caracteres como máximo',
  },
  AT_LEAST: { en: 'must be at least {limit}', es: 'tiene que ser al menos {limit}' },
  MORE_THAN: { en: 'must be more than {limit}', es: 'tiene que ser más de {limit}' },
  AT_MOST: { en: 'must be at most {limit}', es: 'tiene que ser {limit} como máximo' },
  LESS_THAN: { en: 'must be less than {limit}', es: 'tiene que ser menos de {limit}' },
  NOT_VALID: { en: '{said}', es: 'no es válido: {said}' },
  NOT_EXACT: {
    en: 'is beyond the numbers that are kept exactly',
    es: 'supera los números que se guardan con exactitud',
    hint: { en: 'write it as a text, in quotes', es: 'escribilo como texto, entre comillas' },
  },
  MUST_BE_DURATION: {
    en: 'must be a duration from {min} to {max}',
    es: 'tiene que ser una duración de {min} a {max}',
  },
  NUMBER_IS_MS: {
    en: 'a number is milliseconds; {what}',
    es: 'un número son milisegundos; {what}',
  },
  WRITE_WORD: { en: 'write {word}', es: 'escribí {word}' },
  FOR_EXAMPLE: { en: 'for example {example}', es: 'por ejemplo {example}' },
  MUST_BE_WHOLE: {
    en: 'must be a whole number from {min} to {max}',
    es: 'tiene que ser un número entero de {min} a {max}',
  },
  MUST_BE_FLOW_NAME: {
    en: 'must be 1 to 64 of a-z 0-9 _ - and begin with a letter or digit',
    es: 'tiene que ser de 1 a 64 signos de a-z 0-9 _ - y empezar con una letra o un dígito',
  },
  MUST_BE_FIELD_NAME: {
    en: 'must be the name of a field, 1 to 128 characters',
    es: 'tiene que ser el nombre de un campo, de 1 a 128 caracteres',
  },
  MUST_BE_FIELD_OR_LIST: {
    en: 'must be the name of a field or a list of names',
    es: 'tiene que ser el nombre de un campo o una lista de nombres',
  },
  MUST_BE_FIELD_RULE: {
    en: 'must be the name of a field or { from: name, type: type }',
    es: 'tiene que ser el nombre de un campo o { from: nombre, type: tipo }',
  },
  MUST_BE_BREAKER: {
    en: 'must be false or { failures, percent, within, openFor }',
    es: 'tiene que ser false o { failures, percent, within, openFor }',
  },
  MUST_BE_NAME: { en: 'must be a name', es: 'tiene que ser un nombre' },
  MUST_BE_REQUEST_OR_LIST: {
    en: 'must be a request, or a list of requests',
    es: 'tiene que ser un pedido, o una lista de pedidos',
  },
  MUST_BE_TABLE: {
    en: 'must be a table, such as erp.stores',
    es: 'tiene que ser una tabla, por ejemplo erp.stores',
  },
  MUST_BE_TIME_ZONE: {
    en: 'must be a time zone, such as America/Argentina/Buenos_Aires',
    es: 'tiene que ser una zona horaria, por ejemplo America/Argentina/Buenos_Aires',
  },
  MUST_BE_HEADER_NAME: {
    en: 'must be the name of a header',
    es: 'tiene que ser el nombre de un encabezado',
  },
  MUST_BE_MAIL_ADDRESS: {
    en: 'must be a mail address',
    es: 'tiene que ser una dirección de correo',
  },
  MUST_BE_MAIL_ADDRESSES: {
    en: 'must be mail addresses',
    es: 'tienen que ser direcciones de correo',
  },
  MUST_BE_MARKER_NAME: {
    en: 'must be a name made with {name} (of the file) or {stem} (without its extension), such as {example}',
    es: 'tiene que ser un nombre con {name} (del archivo) o {stem} (sin su extensión), por ejemplo {example}',
  },
  MUST_BE_BOOLEAN_OR_COLUMNS: {
    en: 'must be true, false or a list of columns',
    es: 'tiene que ser true, false o una lista de columnas',
  },
  MUST_BE_SHEET: {
    en: 'must be a name or a number from 1',
    es: 'tiene que ser un nombre o un número desde 1',
  },
  MUST_BE_TIME_OF_DAY: {
    en: 'must be a time such as "07:00"',
    es: 'tiene que ser una hora, por ejemplo "07:00"',
  },
  WINDOW_EMPTY: {
    en: 'from and to must differ; leave both out for all day',
    es: 'from y to tienen que ser distintos; sacá los dos para todo el día',
  },
  CRON_FIELDS: {
    en: 'must have five fields, such as "*/15 8-20 * * mon-sat"',
    es: 'tiene que tener cinco campos, por ejemplo "*/15 8-20 * * mon-sat"',
  },
  CRON_NEVER: { en: 'never comes', es: 'nunca llega' },
  CRON_WRONG: { en: 'is no cron expression: {said}', es: 'no es una expresión de cron: {said}' },
  MUST_BE_FINGERPRINT: {
    en: 'must be a fingerprint such as SHA256:uNiVztksCsDhcc0u9e8BrwJ2cb8x8nKmvtSrmPtDWMw; ssh-keyscan HOST | ssh-keygen -lf - shows it',
    es: 'tiene que ser una huella, por ejemplo SHA256:uNiVztksCsDhcc0u9e8BrwJ2cb8x8nKmvtSrmPtDWMw; ssh-keyscan HOST | ssh-keygen -lf - la muestra',
  },
  MUST_BE_FINGERPRINTS: {
    en: 'must be a fingerprint or a list',
    es: 'tiene que ser una huella o una lista',
  },
  MUST_BE_DOTTED_NAMES: {
    en: 'must be names joined by dots, such as data.items',
    es: 'tienen que ser nombres unidos por puntos, por ejemplo data.items',
  },
  MUST_BE_TEXT_OR_NUMBER: {
    en: 'must be a text or a number',
    es: 'tiene que ser un texto o un número',
  },
  MUST_BE_PARAMETER: {
    en: 'must be the name of a parameter',
    es: 'tiene que ser el nombre de un parámetro',
  },
  MUST_BE_WORD: {
    en: 'must be a name of letters, digits and _',
    es: 'tiene que ser un nombre de letras, dígitos y _',
  },
  NAME_OF_SERVICE: {
    en: 'is a name of the service itself',
    es: 'es un nombre del propio servicio',
  },
  MUST_BE_SCALAR: {
    en: 'must be a text, a number, true or false',
    es: 'tiene que ser un texto, un número, true o false',
  },
  MUST_BE_PREFIX: { en: 'must be a prefix', es: 'tiene que ser un prefijo' },
  MUST_BE_CLIENT: {
    en: 'must be the name of a client, 1 to 100 characters',
    es: 'tiene que ser el nombre de un cliente, de 1 a 100 caracteres',
  },

  // References and secrets.
  CONTROL_CHARACTER_IN_VALUE: {
    en: 'holds a line break or control character',
    es: 'tiene un salto de línea o un carácter de control',
  },
  UNKNOWN_REFERENCE: {
    en: '{reference} is not a known reference',
    es: '{reference} no es una referencia conocida',
    hint: { en: 'use {example} or ${file:/path}', es: 'usá {example} o ${file:/path}' },
  },
  OWN_VARIABLE: {
    en: "the environment variable {name} is the service's own, which no flow may read",
    es: 'la variable de entorno {name} es del propio servicio, y ningún flujo la puede leer',
    hint: { en: 'give the flow a variable of its own', es: 'dale al flujo una variable propia' },
  },
  VARIABLE_NOT_SET: {
    en: 'the environment variable {name} is not set',
    es: 'la variable de entorno {name} no está definida',
    hint: { en: 'set {name}', es: 'definí {name}' },
  },
  SECRET_FILE: {
    en: 'the file {path} {what}',
    es: 'el archivo {path} {what}',
    hint: {
      en: 'name a readable text file that holds nothing but the secret',
      es: 'nombrá un archivo de texto legible que tenga sólo el secreto',
    },
  },
  LITERAL_PASSWORD: {
    en: 'a password, key or token must not be in the file',
    es: 'una contraseña, clave o token no puede estar en el archivo',
    hint: { en: 'use ${env:NAME} or ${file:/path}', es: 'usá ${env:NAME} o ${file:/path}' },
  },
  LITERAL_HEADER: {
    en: 'the value of {header} must not be in the file',
    es: 'el valor de {header} no puede estar en el archivo',
    hint: {
      en: 'write the secret part as a reference, such as "Bearer ${env:NAME}"',
      es: 'escribí la parte secreta como referencia, por ejemplo "Bearer ${env:NAME}"',
    },
  },
  LITERAL_SECRET: {
    en: 'a secret must not be in the file',
    es: 'un secreto no puede estar en el archivo',
    hint: { en: 'use ${env:NAME} or ${file:/path}', es: 'usá ${env:NAME} o ${file:/path}' },
  },
  REFERS_TO_FILE: {
    en: 'must not refer to a file',
    es: 'no puede referirse a un archivo',
    hint: { en: 'use ${env:NAME}', es: 'usá ${env:NAME}' },
  },
  OWN_FILE: {
    en: 'is a file of the service itself, which no flow may read or write',
    es: 'es un archivo del propio servicio, que ningún flujo puede leer ni escribir',
  },
  UNKNOWN_PLACEHOLDER: {
    en: '{placeholder} is not a placeholder here',
    es: '{placeholder} no es un marcador acá',
  },
  PLACEHOLDER_IN_REFERENCE: {
    en: 'a reference brings a word in braces, which is not a placeholder here',
    es: 'una referencia trae una palabra entre llaves, que no es un marcador acá',
  },
  NONE_HERE: { en: 'there are none here', es: 'acá no hay ninguno' },
  THERE_ARE: { en: 'there are {known}', es: 'hay {known}' },

  // Addresses.
  NO_DATABASE_ADDRESS: {
    en: 'is not an address for the driver {driver}',
    es: 'no es una dirección para el driver {driver}',
    hint: { en: 'for example {example}', es: 'por ejemplo {example}' },
  },
  ADDRESS_OF_OTHER_DRIVER: {
    en: 'url is an address for the driver {other}, not for {driver}',
    es: 'url es una dirección para el driver {other}, no para {driver}',
    hint: { en: 'write driver: {other}', es: 'escribí driver: {other}' },
  },
  CHARSET_OF_SOURCE: {
    en: 'charset works only at a source; texts are written in UTF-8',
    es: 'charset sirve solo en un origen; los textos se escriben en UTF-8',
    hint: { en: 'leave charset out', es: 'sacá charset' },
  },
  NO_HTTP_ADDRESS: {
    en: 'is not an http or https address',
    es: 'no es una dirección http o https',
    hint: { en: 'for example https://example.com', es: 'por ejemplo https://example.com' },
  },
  ADDRESS_WITH_USER: {
    en: 'must not hold a user or password',
    es: 'no puede tener usuario ni contraseña',
    hint: { en: 'send an authorization header', es: 'enviá un encabezado authorization' },
  },
  NO_SFTP_ADDRESS: {
    en: 'is not an address of an SFTP server with a user',
    es: 'no es una dirección de un servidor SFTP con un usuario',
    hint: {
      en: 'for example sftp://user@files.example.com:22',
      es: 'por ejemplo sftp://user@files.example.com:22',
    },
  },
  SFTP_WITH_PASSWORD: {
    en: 'must not hold a password',
    es: 'no puede tener una contraseña',
    hint: { en: 'give it as source.password', es: 'ponela en source.password' },
  },
  SFTP_WITH_PATH: {
    en: 'holds more than user, host and port',
    es: 'tiene más que usuario, host y puerto',
    hint: { en: 'write the path in source.path', es: 'los archivos van en source.path' },
  },
  PATH_IS_FOLDER: {
    en: 'is a folder',
    es: 'es una carpeta',
    hint: { en: 'for example /out/*.csv', es: 'por ejemplo /out/*.csv' },
  },
  NO_PRIVATE_KEY: {
    en: 'is not a private key',
    es: 'no es una clave privada',
    hint: {
      en: 'the whole file of the key: id_ed25519, not id_ed25519.pub',
      es: 'el archivo entero de la clave: id_ed25519, no id_ed25519.pub',
    },
  },
  NO_PASSWORD_NOR_KEY: {
    en: 'has no password and no privateKey',
    es: 'no tiene password ni privateKey',
    hint: {
      en: 'add password or privateKey, as a reference',
      es: 'agregá password o privateKey, como referencia',
    },
  },
  PASSPHRASE_WITHOUT_KEY: { en: 'is of a privateKey', es: 'es de una privateKey' },
  HOST_OF_ITEM: {
    en: 'has a host that depends on the item',
    es: 'tiene un host que depende del ítem',
    hint: {
      en: 'placeholders belong to the path or the query',
      es: 'los marcadores van en la ruta o en los parámetros',
    },
  },
  DOTS_IN_PATH: {
    en: 'has . or .. in its path',
    es: 'tiene . o .. en su ruta',
    hint: { en: 'write the path that is meant', es: 'escribí la ruta que corresponde' },
  },
  EMPTY_SEGMENT: {
    en: 'has an empty segment (//) in its path',
    es: 'tiene un segmento vacío (//) en su ruta',
    hint: {
      en: 'write one slash; a variable must not end in one',
      es: 'escribí una sola barra; una variable no puede terminar en una',
    },
  },
  METADATA_HOST: {
    en: 'is link-local or a metadata service, which is never called',
    es: 'es local de enlace o un servicio de metadatos, a los que nunca se llama',
  },
  PRIVATE_HOST: {
    en: 'is on a private network, which this flow may not call',
    es: 'está en una red privada, a la que este flujo no puede llamar',
    hint: {
      en: 'write allowPrivateNetwork: true at the top of the file, or in the connection',
      es: 'escribí allowPrivateNetwork: true al comienzo del archivo, o en la conexión',
    },
  },

  // Connections.
  BASE_WITH_QUERY: {
    en: 'has a query or a fragment',
    es: 'tiene parámetros o un fragmento',
    hint: { en: 'write them in the paths of the flows', es: 'van en las rutas de los flujos' },
  },
  MUST_BE_FOLDER: {
    en: 'must be a folder, without * or placeholders',
    es: 'tiene que ser una carpeta, sin * ni marcadores',
  },
  CONNECTION_UNKNOWN: {
    en: 'names the connection {name}, which does not exist',
    es: 'nombra la conexión {name}, que no existe',
    hint: {
      en: '[did you mean {meant}? ]an administrator writes connections in CONNECTIONS_FILE',
      es: '[¿quisiste decir {meant}? ]un administrador escribe las conexiones en CONNECTIONS_FILE',
    },
  },
  CONNECTION_UNUSABLE: {
    en: 'names the connection {name}, which has a problem of its own',
    es: 'nombra la conexión {name}, que tiene un problema propio',
    hint: {
      en: 'an administrator mends it in CONNECTIONS_FILE; flows:check says what is wrong',
      es: 'un administrador la corrige en CONNECTIONS_FILE; flows:check dice qué está mal',
    },
  },
  CONNECTION_OF_OTHER_TYPE: {
    en: 'names the connection {name} of type {type}, and {needed} is needed here',
    es: 'nombra la conexión {name} de tipo {type}, y acá hace falta {needed}',
  },
  CONNECTION_NOT_USED: {
    en: 'does not belong to type {type}',
    es: 'no corresponde al tipo {type}',
  },
  KEY_OF_CONNECTION: {
    en: 'is given by the connection {name}',
    es: 'lo da la conexión {name}',
    hint: { en: 'leave the key out', es: 'sacá la clave' },
  },
  TYPE_OF_CONNECTION: {
    en: 'is given by the connection',
    es: 'lo da la conexión',
    hint: { en: 'leave the key out', es: 'sacá la clave' },
  },
  PATH_NOT_BELOW: {
    en: 'must be a path below the address of the connection',
    es: 'tiene que ser una ruta debajo de la dirección de la conexión',
    hint: {
      en: 'for example /products/{placeholder}; without .., //, # or an encoded slash',
      es: 'por ejemplo /products/{placeholder}; sin .., //, # ni una barra codificada',
    },
  },
  FILE_NOT_BELOW: {
    en: 'must be a path below the folder of the connection',
    es: 'tiene que ser una ruta debajo de la carpeta de la conexión',
    hint: {
      en: 'for example articulos*.csv; without .. and without a slash at its start',
      es: 'por ejemplo articulos*.csv; sin .. y sin una barra al comienzo',
    },
  },
  NEEDS_CONNECTION: {
    en: 'must use a connection, because the file is saved in the browser',
    es: 'tiene que usar una conexión, porque el archivo se guarda desde el navegador',
    hint: {
      en: 'write connection: name, and a path, table or query below it[; there are {known}]',
      es: 'escribí connection: nombre, y una ruta, tabla o consulta debajo de ella[; hay {known}]',
    },
  },
  ONLY_ON_DISK: {
    en: 'can only be changed in the file on the disk, because this part has an address of its own',
    es: 'sólo se puede cambiar en el archivo del disco, porque esta parte tiene una dirección propia',
    hint: {
      en: 'in the browser you can change {free}, or use a connection',
      es: 'en el navegador podés cambiar {free}, o usar una conexión',
    },
  },
  REFERENCE_IN_BROWSER: {
    en: 'has a reference to a variable or a file, which only files on the disk may have',
    es: 'tiene una referencia a una variable o un archivo, que sólo pueden tener los archivos del disco',
    hint: { en: 'use a connection', es: 'usá una conexión' },
  },
  PLACE_OF_SERVICE: {
    en: 'is in a folder of the service itself',
    es: 'está en una carpeta del propio servicio',
    hint: {
      en: 'use a folder outside the program, DATA_DIR and FLOWS_DIR',
      es: 'usá una carpeta fuera del programa, de DATA_DIR y de FLOWS_DIR',
    },
  },

  // Sources.
  ONLY_FOR_DECIMAL: { en: 'is only for type decimal', es: 'es sólo para type decimal' },
  ONLY_FOR_STAR: {
    en: 'is only for a path with *, which names several files',
    es: 'es sólo para un path con *, que nombra varios archivos',
  },
  ONLY_FOR_FORMAT: { en: 'is only for format {format}', es: 'es sólo para format {format}' },
  NAMES_COLUMN_TWICE: {
    en: 'names the column {column} twice',
    es: 'nombra la columna {column} dos veces',
  },
  NEEDS_COLUMN_PLACES: {
    en: 'needs the places of its columns',
    es: 'necesita los lugares de sus columnas',
    hint: {
      en: 'add fixed: { columns: [{ name: codigo, start: 1, length: 8 }] }',
      es: 'agregá fixed: { columns: [{ name: codigo, start: 1, length: 8 }] }',
    },
  },
  MARKER_IS_FILE: {
    en: 'is the name of the file itself',
    es: 'es el nombre del propio archivo',
    hint: { en: 'for example {example}', es: 'por ejemplo {example}' },
  },
  STAR_IN_PATH: {
    en: 'has a * in its folder; it can only be in the name of the file',
    es: 'tiene un * en su carpeta; sólo puede estar en el nombre del archivo',
    hint: { en: 'make a flow for each folder', es: 'hacé un flujo para cada carpeta' },
  },
  NEEDS_ONE_BODY: {
    en: 'needs one of graphql, json, form and xml',
    es: 'necesita uno de graphql, json, form y xml',
  },
  ONLY_FOR_GRAPHQL: { en: 'are only for graphql', es: 'son sólo para graphql' },
  NOT_A_READING_QUERY: {
    en: 'is not read by it: a source only reads',
    es: 'no se lee con eso: un origen sólo lee',
    hint: { en: 'write a query', es: 'escribí una consulta (query)' },
  },
  NO_JSON_VALUE: { en: 'is no value of JSON', es: 'no es un valor de JSON' },
  GROUP_NEEDS_ITEM: {
    en: 'needs source.item: with a cursor a changed group is read again whole, by its key',
    es: 'necesita source.item: con un cursor, un grupo que cambió se lee de nuevo entero, por su clave',
    hint: {
      en: 'add {example}, or leave cursor out',
      es: 'agregá {example}, o sacá cursor',
    },
  },
  NAMES_NO_LIST: {
    en: 'names no list',
    es: 'no nombra ninguna lista',
    hint: {
      en: 'write the name of the list and its columns: { cajas: [caja, caja_nombre] }',
      es: 'escribí el nombre de la lista y sus columnas: { cajas: [caja, caja_nombre] }',
    },
  },
  LIST_IN_KEY: {
    en: 'is a field of item.key, so it cannot be a list',
    es: 'es un campo de item.key, así que no puede ser una lista',
    hint: { en: 'give the list another name', es: 'dale otro nombre a la lista' },
  },
  CHILD_IN_KEY: {
    en: 'is a field of item.key: every record would be an item of its own',
    es: 'es un campo de item.key: cada registro sería un ítem propio',
    hint: {
      en: 'name here only what differs between the records of one item',
      es: 'nombrá acá sólo lo que difiere entre los registros de un ítem',
    },
  },
  OVERLAP_WITHOUT_TIME: {
    en: 'is a time, so it works only with a cursor that is one; initial is not',
    es: 'es un tiempo, así que sólo sirve con un cursor que lo sea; initial no lo es',
    hint: {
      en: 'leave overlap out, or make initial a time such as "1970-01-01T00:00:00Z"',
      es: 'sacá overlap, o hacé que initial sea un momento, por ejemplo "1970-01-01T00:00:00Z"',
    },
  },
  LIMIT_WITH_CURSOR: {
    en: 'gives a part of the rows only ({word}), and the cursor would pass rows that it leaves out',
    es: 'da sólo una parte de las filas ({word}), y el cursor pasaría por alto las que deja afuera',
    hint: {
      en: 'leave that out: a read takes rows in portions of limits.fetchSize, however many there are',
      es: 'sacá eso: una lectura toma las filas de a limits.fetchSize, sean cuantas sean',
    },
  },
  LIMIT_WITH_DELETES: {
    en: 'gives a part of the rows only ({word}), and the rows that it leaves out would be deleted',
    es: 'da sólo una parte de las filas ({word}), y las que deja afuera se borrarían',
    hint: {
      en: 'leave that out: a read takes rows in portions of limits.fetchSize, however many there are',
      es: 'sacá eso: una lectura toma las filas de a limits.fetchSize, sean cuantas sean',
    },
  },
  PARAMETER_UNUSED: {
    en: 'is used neither by query nor by itemQuery',
    es: 'no lo usa query ni itemQuery',
    hint: {
      en: 'write :{name} where its value belongs, without quotes',
      es: 'escribí :{name} donde va su valor, sin comillas',
    },
  },
  ITEM_QUERY_WITHOUT_KEY: {
    en: 'does not say which item: it needs :pk',
    es: 'no dice qué ítem: necesita :pk',
    hint: { en: 'for example where {field} = :pk', es: 'por ejemplo where {field} = :pk' },
  },
  PK_OF_SEVERAL_FIELDS: {
    en: 'compares :pk, which is all fields of item.key joined by a pipe',
    es: 'compara :pk, que son todos los campos de item.key unidos por una barra vertical',
    hint: { en: 'compare them one by one: {condition}', es: 'comparalos uno por uno: {condition}' },
  },
  PARAMETER_UNKNOWN: {
    en: 'has the parameter :{name}, which has no value',
    es: 'tiene el parámetro :{name}, que no tiene valor',
    hint: {
      en: "known here: {known}; write a colon that is none as text: ':'",
      es: "acá se conocen: {known}; escribí como texto los dos puntos que no lo son: ':'",
    },
  },
  PARAMETER_CURSOR: {
    en: 'has the parameter :{name}, which has no value',
    es: 'tiene el parámetro :{name}, que no tiene valor',
    hint: {
      en: 'add source.cursor: { field: … }',
      es: 'agregá source.cursor: { field: … }',
    },
  },
  PARAMETERS_NONE: { en: 'none', es: 'ninguno' },
  HOLDS_CURSOR: {
    en: 'holds {placeholder}, but the source has no cursor',
    es: 'tiene {placeholder}, pero el origen no tiene cursor',
    hint: {
      en: 'add source.cursor: { field: … }',
      es: 'agregá source.cursor: { field: … }',
    },
  },
  ITEM_URL_WITHOUT_KEY: {
    en: 'does not say which item: it needs {placeholder}',
    es: 'no dice qué ítem: necesita {placeholder}',
    hint: {
      en: 'for example https://erp.example.com/api/products/{placeholder}',
      es: 'por ejemplo https://erp.example.com/api/products/{placeholder}',
    },
  },
  SENDS_NO_BODY: {
    en: 'sends no body',
    es: 'no envía cuerpo',
    hint: { en: 'write POST, or leave method out', es: 'escribí POST, o sacá method' },
  },
  PAGES_NOT_READ_SO: {
    en: 'holds {placeholder}, but the pages are not read so',
    es: 'tiene {placeholder}, pero las páginas no se leen así',
    hint: { en: 'add paging: { type: {type} }', es: 'agregá paging: { type: {type} }' },
  },
  PAGING_WITHOUT_SIZE: {
    en: 'holds {placeholder}, but paging has no size',
    es: 'tiene {placeholder}, pero paging no tiene size',
    hint: { en: 'add size to paging', es: 'agregá size a paging' },
  },
  PAGE_INFO_UNUSED: {
    en: 'reads pageInfo, but no variable of the body holds {placeholder}',
    es: 'lee pageInfo, pero ninguna variable del cuerpo tiene {placeholder}',
    hint: { en: 'for example {example}', es: 'por ejemplo {example}' },
  },
  XML_PATH_FOR_JSON: {
    en: 'is a path of XML, but the answers are JSON',
    es: 'es una ruta de XML, pero las respuestas son JSON',
    hint: {
      en: 'add xml: {}, or join the names by dots',
      es: 'agregá xml: {}, o uní los nombres con puntos',
    },
  },
  XML_NEEDS_ITEMS: {
    en: 'needs items',
    es: 'necesita items',
    hint: {
      en: 'add items: /Envelope/Body/Lista/Articulo',
      es: 'agregá items: /Envelope/Body/Lista/Articulo',
    },
  },
  XML_ITEMS_PATH: {
    en: 'is no path from the root to the elements',
    es: 'no es una ruta de la raíz a los elementos',
    hint: {
      en: 'for example /Envelope/Body/Lista/Articulo',
      es: 'por ejemplo /Envelope/Body/Lista/Articulo',
    },
  },
  CURSOR_UNUSED: {
    en: 'does not use {parameter}, so the cursor would have no effect',
    es: 'no usa {parameter}, así que el cursor no tendría efecto',
    hint: {
      en: 'for example {example}; or leave source.cursor out',
      es: 'por ejemplo {example}; o sacá source.cursor',
    },
  },
  NEVER_VANISHES: {
    en: 'cannot be delete with {type}: {things} never vanish',
    es: 'no puede ser delete con {type}: {things} nunca desaparecen',
    hint: { en: 'write ignore', es: 'escribí ignore' },
  },
  SQL_NO_SELECT: {
    en: 'does not begin with SELECT or WITH',
    es: 'no empieza con SELECT o WITH',
    hint: {
      en: 'a query is one SELECT, or WITH … SELECT',
      es: 'una consulta es un SELECT, o WITH … SELECT',
    },
  },
  SQL_SECOND_STATEMENT: {
    en: 'holds a second statement',
    es: 'tiene una segunda sentencia',
    hint: {
      en: 'a query is one SELECT, or WITH … SELECT',
      es: 'una consulta es un SELECT, o WITH … SELECT',
    },
  },
  SQL_WRITES_INTO: {
    en: 'writes with INTO',
    es: 'escribe con INTO',
    hint: { en: 'a source is only read', es: 'un origen sólo se lee' },
  },
  SQL_LOCKS: {
    en: 'locks rows ({words})',
    es: 'bloquea filas ({words})',
    hint: {
      en: 'a source is only read; leave it out',
      es: 'un origen sólo se lee; sacalo',
    },
  },
  SQL_WRITING_WORD: {
    en: 'holds the word {word}, which begins a statement of its own',
    es: 'tiene la palabra {word}, que empieza una sentencia propia',
    hint: {
      en: 'a query is one SELECT, or WITH … SELECT; put a column of that name in brackets',
      es: 'una consulta es un SELECT, o WITH … SELECT; una columna de ese nombre va entre corchetes',
    },
  },
  SQL_WRITES_WITH: {
    en: 'writes with {word}',
    es: 'escribe con {word}',
    hint: { en: 'a source is only read', es: 'un origen sólo se lee' },
  },
  SQL_EXECUTED_COMMENT: {
    en: 'holds a comment that is executed',
    es: 'tiene un comentario que se ejecuta',
    hint: { en: 'write /* with a blank', es: 'escribí /* con un espacio' },
  },

  // Access by OAuth 2.0.
  NEEDS_REFRESH_TOKEN: {
    en: 'needs refreshToken: the one that the issuer gave with the authorization',
    es: 'necesita refreshToken: el que dio el emisor con la autorización',
    hint: {
      en: 'add refreshToken: ${env:NAME} or ${file:/path}',
      es: 'agregá refreshToken: ${env:NAME} o ${file:/path}',
    },
  },
  USELESS_WITHOUT_GRANT: {
    en: 'has no effect without grant: refresh_token',
    es: 'no tiene efecto sin grant: refresh_token',
    hint: { en: 'add grant: refresh_token', es: 'agregá grant: refresh_token' },
  },

  // Destinations.
  BUDGET_NEEDS_LIMIT: {
    en: 'needs a rateLimit beside it',
    es: 'necesita un rateLimit al lado',
    hint: {
      en: 'add the limit of the receiver: rateLimit: { max: 2, per: 1s }',
      es: 'agregá el límite del receptor: rateLimit: { max: 2, per: 1s }',
    },
  },
  NAME_RESERVED: {
    en: 'is reserved: errors of polls are shown as {name}',
    es: 'está reservado: los errores de lectura se muestran como {name}',
    hint: { en: 'choose another name', es: 'elegí otro nombre' },
  },
  NAME_TAKEN: {
    en: 'is the name of a destination above',
    es: 'es el nombre de un destino de más arriba',
    hint: { en: 'choose another name', es: 'elegí otro nombre' },
  },
  MAP_AND_FIELDS: {
    en: 'is beside map; only one of them can make the body',
    es: 'está junto a map; sólo uno de los dos puede hacer el cuerpo',
    hint: { en: 'keep map or fields', es: 'dejá map o fields' },
  },
  NAMES_NO_FIELD: {
    en: 'names no field',
    es: 'no nombra ningún campo',
    hint: {
      en: 'name some, or leave fields out to send the item itself',
      es: 'nombrá algunos, o sacá fields para enviar el ítem tal cual',
    },
  },
  KEY_NOT_IN_FIELDS: {
    en: 'is not among the fields, so no row would have a key',
    es: 'no está entre los fields, así que ninguna fila tendría clave',
    hint: { en: 'add {column} to fields', es: 'agregá {column} a fields' },
  },
  PAUSE_BEYOND_MAX: {
    en: 'begins with a pause longer than its max',
    es: 'empieza con una pausa más larga que su max',
    hint: { en: 'make max at least {seconds}s', es: 'poné max en al menos {seconds}s' },
  },
  REMEMBERED_UNKNOWN: {
    en: '{placeholder} is nothing that remember names',
    es: '{placeholder} no es nada que nombre remember',
    hint: {
      en: 'add remember: { {name}: … }, what it is in the answer',
      es: 'agregá remember: { {name}: … }, lo que es en la respuesta',
    },
  },
  CREATE_NEEDS_REMEMBER: {
    en: 'needs remember: else every change would create the item again',
    es: 'necesita remember: si no, cada cambio crearía el ítem de nuevo',
    hint: { en: 'add remember: { id: id }', es: 'agregá remember: { id: id }' },
  },
  FIND_NEEDS_REMEMBER: {
    en: 'needs remember: it names the values to keep from the answer',
    es: 'necesita remember: nombra los valores de la respuesta que se guardan',
    hint: { en: 'add remember: { id: id }', es: 'agregá remember: { id: id }' },
  },
  BATCH_NEEDS_REQUEST: {
    en: 'needs a request of its own: the address of the single one depends on the item',
    es: 'necesita un pedido propio: la dirección del individual depende del ítem',
    hint: {
      en: 'add request: { url: https://… }',
      es: 'agregá request: { url: https://… }',
    },
  },
  NEEDS_DELETE: {
    en: 'needs delete, because deletes.mode is delete',
    es: 'necesita delete, porque deletes.mode es delete',
    hint: {
      en: 'add {example}, or write deletes: { mode: ignore }',
      es: 'agregá {example}, o escribí deletes: { mode: ignore }',
    },
  },
  REFUSES_STORE_DELETES: {
    en: 'would refuse every delete: a store that is deleted at Mercado Pago is gone',
    es: 'rechazaría toda baja: una sucursal borrada en Mercado Pago no se recupera',
    hint: {
      en: 'write allowStoreDelete: true if that is meant, or deletes: { mode: ignore }',
      es: 'escribí allowStoreDelete: true si querés eso, o deletes: { mode: ignore }',
    },
  },
  DELETE_USES_UNMADE: {
    en: 'uses body.{name}, which the mapping does not make, so it is not kept for the delete',
    es: 'usa body.{name}, que la conversión no hace, así que no se guarda para la baja',
    hint: {
      en: 'make it in fields or map, or use {placeholder}',
      es: 'hacelo en fields o map, o usá {placeholder}',
    },
  },
  DELETE_USES_UNNAMED: {
    en: 'uses remembered.{name}, which remember does not name, so it is not kept for the delete',
    es: 'usa remembered.{name}, que remember no nombra, así que no se guarda para la baja',
    hint: {
      en: 'add remember: { {name}: … }, what it is in the answer',
      es: 'agregá remember: { {name}: … }, lo que es en la respuesta',
    },
  },
  PATH_CLIMBS: {
    en: 'must not climb by ..',
    es: 'no puede subir con ..',
    hint: {
      en: 'write the path from the root, or below the working directory',
      es: 'escribí la ruta desde la raíz, o debajo de la carpeta de trabajo',
    },
  },
  FILE_TAKEN: {
    en: 'is the file of a destination above; two cannot write one file',
    es: 'es el archivo de un destino de más arriba; dos no pueden escribir un mismo archivo',
    hint: { en: 'give it a file of its own', es: 'dale un archivo propio' },
  },

  // Alerts.
  NO_SUCH_DESTINATION: {
    en: 'is not the name of a destination of this flow',
    es: 'no es el nombre de un destino de este flujo',
    hint: {
      en: '[did you mean {meant}?][there are {known}]',
      es: '[¿quisiste decir {meant}?][hay {known}]',
    },
  },
  MAIL_NOT_SET: {
    en: 'mail needs the environment variable {name}',
    es: 'el correo necesita la variable de entorno {name}',
    hint: { en: 'set {name}', es: 'definí {name}' },
  },

  // Expressions.
  TOO_MANY_EXPRESSIONS: {
    en: 'makes more than {most} characters of expressions in one file',
    es: 'suma más de {most} caracteres de expresiones en un archivo',
    hint: { en: 'make two flows of it', es: 'hacé dos flujos' },
  },
  NO_JSONATA: {
    en: 'is not JSONata: {what}[ ({place})]',
    es: 'no es JSONata: {what}[ ({place})]',
  },
  USES_EVAL: {
    en: 'uses $eval, which is not available here ({place})',
    es: 'usa $eval, que no está disponible acá ({place})',
  },
  USES_UNKNOWN: {
    en: 'uses ${name}, which is not known ({place})',
    es: 'usa ${name}, que no se conoce ({place})',
    hint: {
      en: 'a field of the item is written without $',
      es: 'un campo del ítem se escribe sin $',
    },
  },
  USES_MISSPELT: {
    en: 'uses ${name}, which is not known ({place})',
    es: 'usa ${name}, que no se conoce ({place})',
    hint: { en: 'did you mean ${meant}?', es: '¿quisiste decir ${meant}?' },
  },
  IN_EXPRESSION: {
    en: '[line {line}, ]column {column} of the expression',
    es: '[línea {line}, ]columna {column} de la expresión',
  },

  // What earlier versions had.
  // Files of definitions.
  FILE_NO_GROUP: {
    en: 'is not a group of keys',
    es: 'no es un grupo de claves',
    hint: {
      en: 'a flow file begins with version: 1 and name: …',
      es: 'un archivo de flujo empieza con version: 1 y name: …',
    },
  },
  FILE_EMPTY: {
    en: 'is empty',
    es: 'está vacío',
    hint: {
      en: 'a flow file begins with version: 1 and name: …',
      es: 'un archivo de flujo empieza con version: 1 y name: …',
    },
  },
  NAME_IN_OTHER_FILES: {
    en: 'is also the name in {files}, so none of them is loaded',
    es: 'es también el nombre en {files}, así que no se carga ninguno',
    hint: { en: 'rename one of them', es: 'cambiale el nombre a uno' },
  },
  FOLDER_UNREADABLE: {
    en: 'the folder cannot be read ({code})',
    es: 'la carpeta no se puede leer ({code})',
    hint: {
      en: 'FLOWS_DIR must name a readable folder',
      es: 'FLOWS_DIR tiene que nombrar una carpeta legible',
    },
  },
  LINK_TO_NOTHING: {
    en: 'cannot be read ({code})',
    es: 'no se puede leer ({code})',
    hint: { en: 'the link leads nowhere', es: 'el enlace no lleva a ninguna parte' },
  },
  DEFINITION_UNUSABLE: { en: '{said}', es: 'no se puede usar: {said}' },
  DEFINITION_WRONG: {
    en: 'The definition is wrong[ at line {line}: {what}]',
    es: 'La definición está mal[ en la línea {line}: {what}]',
  },
  KEY_AND_PROBLEM: { en: '[{key} ]{problem}', es: '[{key} ]{problem}' },
  FILE_WRITTEN_TWICE: {
    en: "is a file that the flow {flow} writes too: each would cut off the other's lines, so none of them is loaded",
    es: 'es un archivo que también escribe el flujo {flow}: cada uno cortaría las líneas del otro, así que no se carga ninguno',
    hint: { en: 'give each flow a file of its own', es: 'dale a cada flujo un archivo propio' },
  },
  FILES_TAKEN_TWICE: {
    en: 'takes files that the flow {flow} reads too: one would put them away before the other has read them, so none of them is loaded',
    es: 'toma archivos que también lee el flujo {flow}: uno los guardaría antes de que el otro los lea, así que no se carga ninguno',
    hint: {
      en: 'give each flow files of its own, or a copy of them',
      es: 'dale a cada flujo archivos propios, o una copia',
    },
  },
  LARGER_THAN_A_FLOW: {
    en: 'is larger than {most} KiB',
    es: 'ocupa más de {most} KiB',
    hint: { en: 'is it a flow file?', es: '¿es un archivo de flujo?' },
  },
  FLOW_NOT_UTF8: {
    en: 'is not UTF-8',
    es: 'no es UTF-8',
    hint: {
      en: 'save it as UTF-8; editors on Windows may have chosen another encoding',
      es: 'guardalo como UTF-8; los editores de Windows pueden haber elegido otra codificación',
    },
  },
  CONTROL_CHARACTER: {
    en: 'holds a control character',
    es: 'tiene un carácter de control',
    hint: {
      en: 'is it a text file, saved as UTF-8?',
      es: '¿es un archivo de texto, guardado como UTF-8?',
    },
  },
  TOO_MANY_WORDS: {
    en: 'has more than {most} words and signs up to here',
    es: 'tiene más de {most} palabras y signos hasta acá',
    hint: { en: 'is it a flow file?', es: '¿es un archivo de flujo?' },
  },
  TOO_MANY_ALIASES: {
    en: 'is one of more than {most} aliases',
    es: 'es uno de más de {most} alias',
  },
  ALIAS_IN_ANCHOR: {
    en: 'is an alias inside a part that has an anchor',
    es: 'es un alias dentro de una parte que tiene un ancla',
  },
  ALIAS_WITHOUT_ANCHOR: {
    en: 'is an alias without an anchor',
    es: 'es un alias sin ancla',
    hint: {
      en: 'an anchor (&name) must be above its alias (*name)',
      es: 'un ancla (&nombre) tiene que estar antes que su alias (*nombre)',
    },
  },
  ALIAS_TOO_MUCH: {
    en: 'is an alias too much: they repeat more than {most} values',
    es: 'es un alias de más: repiten más de {most} valores',
  },
  KEY_STANDS_TWICE: {
    en: 'is there twice',
    es: 'está dos veces',
  },
  KEEP_ONE: { en: 'keep one of the two', es: 'dejá uno de los dos' },
  KEY_FORBIDDEN: { en: 'must not be a key', es: 'no puede ser una clave' },

  // YAML.
  YAML_ALIAS_PROPS: {
    en: 'an alias takes no tag or anchor',
    es: 'un alias no lleva etiqueta ni ancla',
  },
  YAML_BAD_ALIAS: {
    en: 'is not a usable alias',
    es: 'no es un alias que sirva',
    hint: {
      en: 'put the text in quotes if the * belongs to it',
      es: 'poné el texto entre comillas si el * es parte de él',
    },
  },
  YAML_COLLECTION_TAG: {
    en: 'has a tag that does not suit it',
    es: 'tiene una etiqueta que no le corresponde',
    hint: { en: 'leave the tag out', es: 'sacá la etiqueta' },
  },
  YAML_DIRECTIVE: {
    en: 'is not a usable directive',
    es: 'no es una directiva que sirva',
    hint: { en: 'leave the line out', es: 'sacá la línea' },
  },
  YAML_ESCAPE: {
    en: 'has a backslash without a meaning',
    es: 'tiene una barra invertida que no significa nada',
    hint: {
      en: "write \\\\ for a backslash, or put the text in '…'",
      es: "escribí \\\\ para una barra invertida, o poné el texto entre '…'",
    },
  },
  YAML_INDENT: {
    en: 'is indented in a way that does not fit the lines above',
    es: 'tiene una sangría que no coincide con las líneas de arriba',
    hint: {
      en: 'keys of one level begin in one column, and each bracket is closed',
      es: 'las claves de un nivel empiezan en una misma columna, y cada corchete se cierra',
    },
  },
  YAML_PROP_ORDER: {
    en: 'has its tag or anchor in the wrong place',
    es: 'tiene su etiqueta o ancla en un lugar equivocado',
  },
  YAML_SCALAR_START: {
    en: 'begins with a character that YAML keeps for itself',
    es: 'empieza con un carácter que YAML se reserva',
    hint: { en: 'put the text in quotes', es: 'poné el texto entre comillas' },
  },
  YAML_TWO_KEYS: {
    en: 'has two keys in one line',
    es: 'tiene dos claves en una línea',
    hint: {
      en: 'put the text after the first colon in quotes, or the second key on its own line',
      es: 'poné entre comillas el texto que sigue a los primeros dos puntos, o la segunda clave en su propia línea',
    },
  },
  YAML_BLOCK_IN_FLOW: {
    en: 'cannot be between { } or [ ]',
    es: 'no puede estar entre { } o [ ]',
    hint: {
      en: 'check the brackets and quotes here and in the lines above',
      es: 'revisá los corchetes y las comillas acá y en las líneas de arriba',
    },
  },
  YAML_IMPOSSIBLE: {
    en: 'is not YAML',
    es: 'no es YAML',
    hint: {
      en: 'check the brackets and quotes here and in the lines above',
      es: 'revisá los corchetes y las comillas acá y en las líneas de arriba',
    },
  },
  YAML_KEY_LENGTH: {
    en: 'the key is longer than 1024 characters',
    es: 'la clave tiene más de 1024 caracteres',
  },
  YAML_MISSING_CHAR: {
    en: 'a closing bracket, quote, comma or colon is missing',
    es: 'falta un corchete, una comilla, una coma o dos puntos',
    hint: {
      en: 'check the brackets and quotes here and in the lines above',
      es: 'revisá los corchetes y las comillas acá y en las líneas de arriba',
    },
  },
  YAML_NO_KEY: {
    en: 'is not a key',
    es: 'no es una clave',
    hint: {
      en: 'write key: value on one line, with a blank after the colon',
      es: 'escribí clave: valor en una línea, con un espacio después de los dos puntos',
    },
  },
  YAML_TWO_ANCHORS: { en: 'has two anchors', es: 'tiene dos anclas' },
  YAML_SECOND_DOCUMENT: {
    en: 'begins a second document',
    es: 'empieza un segundo documento',
    hint: {
      en: 'one flow per file: leave the line --- out',
      es: 'un flujo por archivo: sacá la línea ---',
    },
  },
  YAML_TWO_TAGS: { en: 'has two tags', es: 'tiene dos etiquetas' },
  YAML_NO_TEXT_KEY: {
    en: 'is not a text, so it cannot be a key',
    es: 'no es un texto, así que no puede ser una clave',
    hint: {
      en: 'check the brackets and quotes here and in the lines above',
      es: 'revisá los corchetes y las comillas acá y en las líneas de arriba',
    },
  },
  YAML_TOO_DEEP: { en: 'is nested too deeply', es: 'tiene demasiados niveles' },
  YAML_TAB: {
    en: 'is indented by a tab',
    es: 'tiene una sangría con tabulador',
    hint: { en: 'indent with blanks', es: 'usá espacios para la sangría' },
  },
  YAML_UNKNOWN_TAG: {
    en: 'has a tag that is not known here',
    es: 'tiene una etiqueta que acá no se conoce',
    hint: { en: 'leave the tag out', es: 'sacá la etiqueta' },
  },
  YAML_UNEXPECTED: {
    en: 'holds something that does not belong here',
    es: 'tiene algo que no va acá',
    hint: {
      en: 'check the brackets and quotes here and in the lines above',
      es: 'revisá los corchetes y las comillas acá y en las líneas de arriba',
    },
  },
  REFERENCE_NEEDS_QUOTES: {
    en: 'between { } a reference needs quotes: "${env:NAME}"',
    es: 'entre { } una referencia necesita comillas: "${env:NAME}"',
  },
} as const satisfies ReasonTexts
