import type { ReasonTexts } from './reason-texts.ts'

/** Why a file could not be read. Those that begin with a verb follow the name of the file, or `the answer`. */
export const fileReasons = {
  IN_FILE: { en: '{path} {what}', es: '{path} {what}' },
  NO_FILE: { en: 'there is no file {path} to read', es: 'no existe el archivo {path}' },
  FILE_SETTLING: {
    en: '{path} changed less than {ms} ms ago (source.settle); it is read by a later poll',
    es: '{path} cambió hace menos de {ms} ms (source.settle); se lee en una corrida posterior',
  },
  FILE_WITHOUT_MARKER: {
    en: '{path} waits for its marker {marker} (source.ready), which is missing or older than it',
    es: '{path} espera su marca {marker} (source.ready), que falta o es más vieja',
  },
  FILE_BEGUN: {
    en: '{path} is empty; it waits until something is written, or nothing has changed for {ms} ms',
    es: '{path} está vacío; espera hasta que se escriba algo, o nada cambie durante {ms} ms',
  },
  FILE_ENDS_IN_LINE: {
    en: '{path} ends within a line; its last record waits until the line has its end, or nothing has changed for {ms} ms',
    es: '{path} termina en medio de una línea; su último registro espera hasta que la línea tenga su fin, o nada cambie durante {ms} ms',
  },
  FILE_ENDS_IN_LINE_TAKEN: {
    en: '{path} ends within a line. Nothing changed for {ms} ms, so its last record counts as it is and may be cut. A line end or source.ready prevents that',
    es: '{path} termina en medio de una línea. Nada cambió durante {ms} ms, así que su último registro se tomó como está y puede estar cortado. Un fin de línea o source.ready lo evitan',
  },
  FILE_NOT_ARCHIVED: {
    en: '{path} was read, but it cannot be archived: {what}',
    es: '{path} se leyó, pero no se puede archivar: {what}',
  },
  FILE_NOT_DELETED: {
    en: '{path} was read, but it cannot be deleted: {what}',
    es: '{path} se leyó, pero no se puede borrar: {what}',
  },
  NOT_REGULAR: {
    en: '{path} is not a regular file (links are not followed)',
    es: '{path} no es un archivo común (no se siguen los enlaces)',
  },
  CHANGED_MEANWHILE: {
    en: '{path} changed while it was read; it is read again by the next poll',
    es: '{path} cambió mientras se leía; se lee de nuevo en la próxima corrida',
  },
  REPLACED_TWICE: {
    en: '{path} was replaced twice while the service moved it. The file in between was not read; it is {target} now',
    es: '{path} se reemplazó dos veces mientras se guardaba; el del medio no se leyó y ahora es {target}',
  },
  FILE_TOO_LARGE: {
    en: '{path} has {size} bytes, more than {most} MiB (source.maxMegabytes)',
    es: '{path} ocupa {size} bytes, más de {most} MiB (source.maxMegabytes)',
  },
  TOO_MANY_FILES: {
    en: '{folder} has more than {most} files',
    es: '{folder} tiene más de {most} archivos',
  },
  SIZE_NOT_SAID: {
    en: 'the server does not give the size of {path}',
    es: 'el servidor no dice cuánto ocupa {path}',
  },

  IT: { en: 'it {what}', es: '{what}' },
  IS_NOT_REGULAR: { en: 'is not a regular file', es: 'no es un archivo común' },
  CANNOT_BE_READ: { en: 'cannot be read[ ({code})]', es: 'no se puede leer[ ({code})]' },
  SERVICE_SECRETS: {
    en: 'holds secrets of the service itself',
    es: 'tiene secretos del propio servicio',
  },
  OUTSIDE_FOLDER: {
    en: 'is outside the folder of the connection',
    es: 'está fuera de la carpeta de la conexión',
  },
  LARGER_THAN: { en: 'is larger than {most} KiB', es: 'ocupa más de {most} KiB' },

  // Any format.
  EMPTY: { en: 'is empty', es: 'está vacío' },
  EMPTY_WITHOUT_HEADER: {
    en: 'is empty: not even a header',
    es: 'está vacío: ni siquiera tiene encabezado',
  },
  NOT_UTF8: {
    en: 'is not UTF-8; of another encoding csv and fixed can be read (encoding: latin1, cp850, …)',
    es: 'no es UTF-8; de otra codificación se leen csv y fixed (encoding: latin1, cp850, …)',
  },
  NO_CHARACTERS_OF: {
    en: 'holds bytes that are no character of {encoding}',
    es: 'tiene bytes que no son ningún carácter de {encoding}',
  },
  OTHER_MARK: {
    en: 'begins with the mark of {found}, but its encoding is {given}; write encoding: {found}',
    es: 'empieza con la marca de {found}, pero su codificación es {given}; escribí encoding: {found}',
  },
  OTHER_ENCODING: {
    en: 'looks like {found}, but its encoding is {given}; write encoding: {found}',
    es: 'parece {found}, pero su codificación es {given}; escribí encoding: {found}',
  },
  TEXT_BEHIND_END: {
    en: 'has text behind the sign of its end (Ctrl-Z)',
    es: 'tiene texto después de la marca de su fin (Ctrl-Z)',
  },
  LINE_TOO_LONG: {
    en: 'has more than {most} characters in line {line}[ in {field}]',
    es: 'tiene más de {most} caracteres en la línea {line}[, en {field}]',
  },
  NESTED_TOO_DEEP: {
    en: 'is nested deeper than {most} levels',
    es: 'tiene más de {most} niveles',
  },
  TOO_MANY_COLUMNS_READ: { en: 'has more than {most} columns', es: 'tiene más de {most} columnas' },
  COLUMN_NAMED_TWICE: {
    en: 'has the column {column} twice[, in row {row}]',
    es: 'tiene la columna {column} dos veces[, en la fila {row}]',
  },

  // CSV and lines of fixed width.
  OTHER_COUNT_THAN_HEADER: {
    en: 'has a record with another number of values than the header, at line {line}',
    es: 'tiene un registro con otra cantidad de valores que el encabezado, en la línea {line}',
  },
  OTHER_COUNT_THAN_COLUMNS: {
    en: 'has a record with another number of values than the names of csv.columns, at line {line}',
    es: 'tiene un registro con otra cantidad de valores que los nombres de csv.columns, en la línea {line}',
  },
  NO_TRAILING_DELIMITER: {
    en: 'has no delimiter behind the last value at line {line} (csv.trailingDelimiter)',
    es: 'no tiene separador después del último valor en la línea {line} (csv.trailingDelimiter)',
  },
  HEADER_TOO_WIDE: {
    en: 'has {columns} columns in its header; {most} are the most',
    es: 'tiene {columns} columnas en su encabezado; {most} es el máximo',
  },
  HEADER_WITHOUT_NAME: {
    en: 'has no name for column {column} in its header',
    es: 'no tiene nombre para la columna {column} en su encabezado',
  },
  CSV_LINE_TOO_LONG: {
    en: 'has a line longer than {most} characters, line {line}[, most of it in the column {column}]',
    es: 'tiene una línea de más de {most} caracteres, la línea {line}[; la mayor parte en la columna {column}]',
  },
  THE_END: { en: 'the end', es: 'el final' },
  THE_LINE: { en: 'line {line}', es: 'la línea {line}' },
  CSV_QUOTE_INSIDE: {
    en: 'has a quote inside a value that is not quoted, at {place}; put such a value in quotes, and double its own (csv.quotes)',
    es: 'tiene una comilla dentro de un valor sin comillas, en {place}; un valor así va entre comillas, y las suyas se duplican (csv.quotes)',
  },
  CSV_TEXT_BEHIND_QUOTE: {
    en: 'has text behind a closing quote, at {place}; a quote inside a quoted value is doubled',
    es: 'tiene texto después de una comilla que cierra, en {place}; una comilla dentro de un valor entre comillas se duplica',
  },
  CSV_QUOTE_OPEN: {
    en: 'has a quote that is not closed, at {place}',
    es: 'tiene una comilla que no se cierra, en {place}',
  },
  CSV_RECORD_TOO_LONG: {
    en: 'has a record longer than {most} characters, at {place}[, in the column {column}]',
    es: 'tiene un registro de más de {most} caracteres, en {place}[, en la columna {column}]',
  },
  CSV_MALFORMED: {
    en: 'is not well-formed CSV at {place} ({code})',
    es: 'no es CSV bien formado en {place} ({code})',
  },
  FIXED_LINE_SHORT: {
    en: 'has a line of {length} characters, line {line}; its columns need {width} (fixed.mayEndEarly)',
    es: 'tiene una línea de {length} caracteres, la línea {line}; sus columnas necesitan {width} (fixed.mayEndEarly)',
  },
  FIXED_NO_NUMBER: {
    en: 'has no number in the column {column}, line {line} (type {type})',
    es: 'no tiene un número en la columna {column}, línea {line} (type {type})',
  },
  FIXED_NO_WHOLE_NUMBER: {
    en: 'has no whole number in the column {column}, line {line} (type {type})',
    es: 'no tiene un número entero en la columna {column}, línea {line} (type {type})',
  },
  FIXED_NO_DATE: {
    en: 'has no date in the column {column}, line {line} (type {type})',
    es: 'no tiene una fecha en la columna {column}, línea {line} (type {type})',
  },
  NEEDS_FIXED_COLUMNS: { en: 'needs fixed.columns', es: 'necesita fixed.columns' },

  // JSON.
  JSON_TOO_LONG: {
    en: 'is longer than {most} characters, the most for format json; ndjson has no limit',
    es: 'tiene más de {most} caracteres, el máximo de format json; ndjson no tiene límite',
  },
  NOT_JSON: { en: 'is not JSON', es: 'no es JSON' },
  LIST_TOO_LONG: {
    en: 'holds a list of more than {most} entries',
    es: 'tiene una lista de más de {most} entradas',
  },
  TOO_MUCH_NESTED: {
    en: 'holds more than {most} lists and objects in one record',
    es: 'tiene más de {most} listas y objetos en un registro',
  },
  VALUE_TOO_LONG: {
    en: 'holds a value longer than {most} characters[ in {field}]',
    es: 'tiene un valor de más de {most} caracteres[ en {field}]',
  },
  LINE_NO_JSON: { en: 'has no JSON in line {line}', es: 'no tiene JSON en la línea {line}' },
  LINE_NO_OBJECT: {
    en: 'has {kind} in line {line}, not an object',
    es: 'tiene {kind} en la línea {line}, no un objeto',
  },
  NO_LINE_OBJECT: {
    en: 'has no line with an object; it {what}',
    es: 'no tiene ninguna línea con un objeto; {what}',
  },

  // XML.
  XML_MALFORMED: {
    en: 'is not well-formed XML in line {line}: {said}',
    es: 'no es XML bien formado en la línea {line}: {said}',
  },
  XML_DOCTYPE: {
    en: 'has a document type declaration, which is not read',
    es: 'tiene una declaración de tipo de documento, que no se lee',
  },
  XML_TOO_MANY_ATTRIBUTES: {
    en: 'has an element with more than {most} attributes in line {line}',
    es: 'tiene un elemento con más de {most} atributos en la línea {line}',
  },
  XML_RECORD_TOO_LONG: {
    en: 'has a record longer than {most} characters, record {record} in line {line}',
    es: 'tiene un registro de más de {most} caracteres, el registro {record} en la línea {line}',
  },
  XML_TOO_MUCH_OUTSIDE: {
    en: 'has more than {most} characters that are no record; is items ({items}) right?',
    es: 'tiene más de {most} caracteres que no son ningún registro; ¿está bien items ({items})?',
  },
  XML_SECOND_DOCUMENT: {
    en: 'has a second document behind the first, in line {line}',
    es: 'tiene un segundo documento después del primero, en la línea {line}',
  },
  XML_NO_PARENT: {
    en: 'items ({items}) is missing: the element around it is not there',
    es: 'falta items ({items}): el elemento que lo contiene no está',
  },
  XML_OTHER_ROOT: {
    en: 'items ({items}) is missing: the root of the document is not there',
    es: 'falta items ({items}): la raíz del documento no está',
  },
  XML_FIELD_TWICE: {
    en: 'has the field {field} more than once in record {record}, line {line}; a path that ends in [] takes them all',
    es: 'tiene el campo {field} más de una vez en el registro {record}, línea {line}; una ruta que termina en [] los toma todos',
  },

  XML_STEP: {
    en: 'has a step that is no name of XML: {step}',
    es: 'tiene un paso que no es un nombre de XML: {step}',
  },
  XML_STEP_NOT_LAST: {
    en: 'has @ or [] before its last step',
    es: 'tiene @ o [] antes de su último paso',
  },
  XML_PREFIX: {
    en: 'has the prefix {prefix}, which xml.namespaces does not name',
    es: 'tiene el prefijo {prefix}, que xml.namespaces no nombra',
  },

  // DBF.
  DBF_TOO_SHORT: {
    en: 'is no DBF file: it is too short',
    es: 'no es un archivo DBF: es demasiado corto',
  },
  DBF_UNKNOWN: {
    en: 'is no DBF file that is known (dBase III to Visual FoxPro)',
    es: 'no es un archivo DBF conocido (dBase III a Visual FoxPro)',
  },
  DBF_CUT: {
    en: 'is cut: its header says {records} records, and there are {there}',
    es: 'está cortado: su encabezado dice que hay {records} registros, y hay {there}',
  },
  DBF_BEING_WRITTEN: {
    en: 'has more records than its header says: another program is writing it',
    es: 'tiene más registros de los que dice su encabezado: se está escribiendo',
  },
  DBF_TRAILING: {
    en: 'has something behind its last record: it is damaged',
    es: 'tiene algo después de su último registro: está dañado',
  },
  DBF_NO_RECORD: {
    en: 'has no record where record {record} should begin: it is damaged',
    es: 'no tiene un registro donde debería empezar el registro {record}: está dañado',
  },
  DBF_BAD_COLUMN: {
    en: 'is damaged: a column has no name or length',
    es: 'está dañado: una columna no tiene nombre o largo',
  },
  DBF_COLUMNS_MISFIT: {
    en: 'is damaged: its columns do not fit into its records',
    es: 'está dañado: sus columnas no caben en sus registros',
  },
  DBF_NO_COLUMN: {
    en: 'has no column {column} (dbf.skip)',
    es: 'no tiene la columna {column} (dbf.skip)',
  },
  DBF_NOTHING_READ: { en: 'has no column that is read', es: 'no tiene ninguna columna que se lea' },
  DBF_NO_CODE_PAGE: {
    en: 'does not name its code page, and record {record} has a letter beyond ASCII in the column {column} (dbf.encoding)',
    es: 'no dice su página de códigos, y el registro {record} tiene una letra fuera de ASCII en la columna {column} (dbf.encoding)',
  },
  DBF_NO_VALUE: {
    en: 'has no value of type {type} in the column {column}, record {record}',
    es: 'no tiene un valor de tipo {type} en la columna {column}, registro {record}',
  },
  DBF_MEMO: {
    en: 'has the memo {column}, which is in another file and is not read; leave it out by dbf: {skip}',
    es: 'tiene el memo {column}, que está en otro archivo y no se lee; dejalo afuera con dbf: {skip}',
  },
  DBF_TYPE_UNREAD: {
    en: 'has the column {column} of a type that is not read ({type}); leave it out by dbf: {skip}',
    es: 'tiene la columna {column} de un tipo que no se lee ({type}); dejala afuera con dbf: {skip}',
  },
  CUT_WHILE_READ: { en: 'was cut while it was read', es: 'se cortó mientras se leía' },

  // Excel.
  ZIP_DAMAGED: {
    en: 'is no {format} that can be read: it is cut or damaged',
    es: 'no es un {format} que se pueda leer: está cortado o dañado',
  },
  ZIP_TOO_MANY_PARTS: { en: 'has more than {most} parts', es: 'tiene más de {most} partes' },
  ZIP_NO_PART: {
    en: 'is no {format}: it has no part {part}',
    es: 'no es un {format}: no tiene la parte {part}',
  },
  ZIP_TOO_LARGE: {
    en: 'is larger than {most} bytes when it is unpacked ({part})',
    es: 'ocupa más de {most} bytes cuando se descomprime ({part})',
  },
  NOT_A_BOOK: { en: 'is no {format}', es: 'no es un {format}' },
  PART_NOT_UTF8: {
    en: 'is damaged: its part {part} is not UTF-8',
    es: 'está dañado: su parte {part} no es UTF-8',
  },
  PART_DAMAGED: {
    en: 'is damaged: its part {part} {what}',
    es: 'está dañado: su parte {part} {what}',
  },
  NO_SHEET: {
    en: 'has no sheet {sheet} (there are {found})',
    es: 'no tiene la hoja {sheet} (hay {found})',
  },
  SHEET_WITHOUT_CELLS: {
    en: 'has the sheet {sheet}, which holds no cells',
    es: 'tiene la hoja {sheet}, que no tiene celdas',
  },
  NO_COLUMN_NAMES: {
    en: 'has no names of columns in row {row} (xlsx.headerRow)',
    es: 'no tiene nombres de columnas en la fila {row} (xlsx.headerRow)',
  },
  COLUMN_NAME_TOO_LONG: {
    en: 'has a name of more than {most} characters for the column {column}, in row {row}',
    es: 'tiene un nombre de más de {most} caracteres para la columna {column}, en la fila {row}',
  },
  TOO_MUCH_SHARED_TEXT: {
    en: 'has more than {most} characters of shared texts; saved as CSV it can be read',
    es: 'tiene más de {most} caracteres de textos compartidos; guardado como CSV se puede leer',
  },
  TOO_MANY_SHARED_TEXTS: {
    en: 'has more than {most} shared texts; saved as CSV it can be read',
    es: 'tiene más de {most} textos compartidos; guardado como CSV se puede leer',
  },
  TOO_MANY_STYLES: {
    en: 'has more than {most} styles of cells',
    es: 'tiene más de {most} estilos de celdas',
  },
  ROW_TOO_LONG: {
    en: 'has more than {most} characters in row {row}',
    es: 'tiene más de {most} caracteres en la fila {row}',
  },
  TOO_MANY_CELLS: {
    en: 'has more than {most} cells; saved as CSV it can be read',
    es: 'tiene más de {most} celdas; guardado como CSV se puede leer',
  },
  CELL_TEXT_MISSING: {
    en: 'is damaged: the text of the cell {cell} is missing',
    es: 'está dañado: falta el texto de la celda {cell}',
  },
  CELL_TYPE_UNKNOWN: {
    en: 'has a value of an unknown type in the cell {cell} of the sheet {sheet}',
    es: 'tiene un valor de un tipo desconocido en la celda {cell} de la hoja {sheet}',
  },
  CELL_WITHOUT_PLACE: {
    en: 'is damaged: a cell has no place',
    es: 'está dañado: una celda no tiene lugar',
  },
  CELL_NO_NUMBER: {
    en: 'has no number in the cell {cell} of the sheet {sheet}',
    es: 'no tiene un número en la celda {cell} de la hoja {sheet}',
  },
  CELL_DATE_TOO_EARLY: {
    en: 'has the negative number {value} as a date in the cell {cell} of the sheet {sheet}; give the cell the format of a number',
    es: 'tiene el número negativo {value} como fecha en la celda {cell} de la hoja {sheet}; dale a la celda formato de número',
  },
  CELL_DATE_TOO_LATE: {
    en: 'has the number {value} as a date after the year 9999 in the cell {cell} of the sheet {sheet}; give the cell the format of a number',
    es: 'tiene el número {value} como fecha posterior al año 9999 en la celda {cell} de la hoja {sheet}; dale a la celda formato de número',
  },
  CELL_NOT_COMPUTED: {
    en: 'has a formula without a computed value in the cell {cell} of the sheet {sheet}; open and save the workbook in a spreadsheet program',
    es: 'tiene una fórmula sin valor calculado en la celda {cell} de la hoja {sheet}; abrí y guardá el libro en una planilla de cálculo',
  },
  CELL_ERROR: {
    en: 'has the error {error} in the cell {cell} of the sheet {sheet}',
    es: 'tiene el error {error} en la celda {cell} de la hoja {sheet}',
  },
} as const satisfies ReasonTexts
