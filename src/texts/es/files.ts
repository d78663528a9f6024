/** Why a file could not be read. Those that begin with a verb follow the name of the file, or `the answer`. */
export const files = {
  IN_FILE: '{path} {what}',
  NO_FILE: 'no existe el archivo {path}',
  FILE_SETTLING:
    '{path} cambió hace menos de {ms} ms (source.settle); se lee en una corrida posterior',
  FILE_WITHOUT_MARKER: '{path} espera su marca {marker} (source.ready), que falta o es más vieja',
  FILE_BEGUN: '{path} está vacío; espera hasta que se escriba algo, o nada cambie durante {ms} ms',
  FILE_ENDS_IN_LINE:
    '{path} termina en medio de una línea; su último registro espera hasta que la línea tenga su fin, o nada cambie durante {ms} ms',
  FILE_ENDS_IN_LINE_TAKEN:
    '{path} termina en medio de una línea. Nada cambió durante {ms} ms, así que su último registro se tomó como está y puede estar cortado. Un fin de línea o source.ready lo evitan',
  FILE_NOT_ARCHIVED: '{path} se leyó, pero no se puede archivar: {what}',
  FILE_NOT_DELETED: '{path} se leyó, pero no se puede borrar: {what}',
  NOT_REGULAR: '{path} no es un archivo común (no se siguen los enlaces)',
  CHANGED_MEANWHILE: '{path} cambió mientras se leía; se lee de nuevo en la próxima corrida',
  REPLACED_TWICE:
    '{path} se reemplazó dos veces mientras se guardaba; el del medio no se leyó y ahora es {target}',
  FILE_TOO_LARGE: '{path} ocupa {size} bytes, más de {most} MiB (source.maxMegabytes)',
  TOO_MANY_FILES: '{folder} tiene más de {most} archivos',
  SIZE_NOT_SAID: 'el servidor no dice cuánto ocupa {path}',

  IT: '{what}',
  IS_NOT_REGULAR: 'no es un archivo común',
  CANNOT_BE_READ: 'no se puede leer[ ({code})]',
  SERVICE_SECRETS: 'tiene secretos del propio servicio',
  OUTSIDE_FOLDER: 'está fuera de la carpeta de la conexión',
  LARGER_THAN: 'ocupa más de {most} KiB',

  // Any format.
  EMPTY: 'está vacío',
  EMPTY_WITHOUT_HEADER: 'está vacío: ni siquiera tiene encabezado',
  NOT_UTF8: 'no es UTF-8; de otra codificación se leen csv y fixed (encoding: latin1, cp850, …)',
  NO_CHARACTERS_OF: 'tiene bytes que no son ningún carácter de {encoding}',
  OTHER_MARK:
    'empieza con la marca de {found}, pero su codificación es {given}; escribí encoding: {found}',
  OTHER_ENCODING: 'parece {found}, pero su codificación es {given}; escribí encoding: {found}',
  TEXT_BEHIND_END: 'tiene texto después de la marca de su fin (Ctrl-Z)',
  LINE_TOO_LONG: 'tiene más de {most} caracteres en la línea {line}[, en {field}]',
  NESTED_TOO_DEEP: 'tiene más de {most} niveles',
  TOO_MANY_COLUMNS_READ: 'tiene más de {most} columnas',
  COLUMN_NAMED_TWICE: 'tiene la columna {column} dos veces[, en la fila {row}]',

  // CSV and lines of fixed width.
  OTHER_COUNT_THAN_HEADER:
    'tiene un registro con otra cantidad de valores que el encabezado, en la línea {line}',
  OTHER_COUNT_THAN_COLUMNS:
    'tiene un registro con otra cantidad de valores que los nombres de csv.columns, en la línea {line}',
  NO_TRAILING_DELIMITER:
    'no tiene separador después del último valor en la línea {line} (csv.trailingDelimiter)',
  HEADER_TOO_WIDE: 'tiene {columns} columnas en su encabezado; {most} es el máximo',
  HEADER_WITHOUT_NAME: 'no tiene nombre para la columna {column} en su encabezado',
  CSV_LINE_TOO_LONG:
    'tiene una línea de más de {most} caracteres, la línea {line}[; la mayor parte en la columna {column}]',
  THE_END: 'el final',
  THE_LINE: 'la línea {line}',
  CSV_QUOTE_INSIDE:
    'tiene una comilla dentro de un valor sin comillas, en {place}; un valor así va entre comillas, y las suyas se duplican (csv.quotes)',
  CSV_TEXT_BEHIND_QUOTE:
    'tiene texto después de una comilla que cierra, en {place}; una comilla dentro de un valor entre comillas se duplica',
  CSV_QUOTE_OPEN: 'tiene una comilla que no se cierra, en {place}',
  CSV_RECORD_TOO_LONG:
    'tiene un registro de más de {most} caracteres, en {place}[, en la columna {column}]',
  CSV_MALFORMED: 'no es CSV bien formado en {place} ({code})',
  FIXED_LINE_SHORT:
    'tiene una línea de {length} caracteres, la línea {line}; sus columnas necesitan {width} (fixed.mayEndEarly)',
  FIXED_NO_NUMBER: 'no tiene un número en la columna {column}, línea {line} (type {type})',
  FIXED_NO_WHOLE_NUMBER:
    'no tiene un número entero en la columna {column}, línea {line} (type {type})',
  FIXED_NO_DATE: 'no tiene una fecha en la columna {column}, línea {line} (type {type})',
  NEEDS_FIXED_COLUMNS: 'necesita fixed.columns',

  // JSON.
  JSON_TOO_LONG: 'tiene más de {most} caracteres, el máximo de format json; ndjson no tiene límite',
  NOT_JSON: 'no es JSON',
  LIST_TOO_LONG: 'tiene una lista de más de {most} entradas',
  TOO_MUCH_NESTED: 'tiene más de {most} listas y objetos en un registro',
  VALUE_TOO_LONG: 'tiene un valor de más de {most} caracteres[ en {field}]',
  LINE_NO_JSON: 'no tiene JSON en la línea {line}',
  LINE_NO_OBJECT: 'tiene {kind} en la línea {line}, no un objeto',
  NO_LINE_OBJECT: 'no tiene ninguna línea con un objeto; {what}',

  // XML.
  XML_MALFORMED: 'no es XML bien formado en la línea {line}: {said}',
  XML_DOCTYPE: 'tiene una declaración de tipo de documento, que no se lee',
  XML_TOO_MANY_ATTRIBUTES: 'tiene un elemento con más de {most} atributos en la línea {line}',
  XML_RECORD_TOO_LONG:
    'tiene un registro de más de {most} caracteres, el registro {record} en la línea {line}',
  XML_TOO_MUCH_OUTSIDE:
    'tiene más de {most} caracteres que no son ningún registro; ¿está bien items ({items})?',
  XML_SECOND_DOCUMENT: 'tiene un segundo documento después del primero, en la línea {line}',
  XML_NO_PARENT: 'falta items ({items}): el elemento que lo contiene no está',
  XML_OTHER_ROOT: 'falta items ({items}): la raíz del documento no está',
  XML_FIELD_TWICE:
    'tiene el campo {field} más de una vez en el registro {record}, línea {line}; una ruta que termina en [] los toma todos',

  XML_STEP: 'tiene un paso que no es un nombre de XML: {step}',
  XML_STEP_NOT_LAST: 'tiene @ o [] antes de su último paso',
  XML_PREFIX: 'tiene el prefijo {prefix}, que xml.namespaces no nombra',

  // DBF.
  DBF_TOO_SHORT: 'no es un archivo DBF: es demasiado corto',
  DBF_UNKNOWN: 'no es un archivo DBF conocido (dBase III a Visual FoxPro)',
  DBF_CUT: 'está cortado: su encabezado dice que hay {records} registros, y hay {there}',
  DBF_BEING_WRITTEN: 'tiene más registros de los que dice su encabezado: se está escribiendo',
  DBF_TRAILING: 'tiene algo después de su último registro: está dañado',
  DBF_NO_RECORD: 'no tiene un registro donde debería empezar el registro {record}: está dañado',
  DBF_BAD_COLUMN: 'está dañado: una columna no tiene nombre o largo',
  DBF_COLUMNS_MISFIT: 'está dañado: sus columnas no caben en sus registros',
  DBF_NO_COLUMN: 'no tiene la columna {column} (dbf.skip)',
  DBF_NOTHING_READ: 'no tiene ninguna columna que se lea',
  DBF_NO_CODE_PAGE:
    'no dice su página de códigos, y el registro {record} tiene una letra fuera de ASCII en la columna {column} (dbf.encoding)',
  DBF_NO_VALUE: 'no tiene un valor de tipo {type} en la columna {column}, registro {record}',
  DBF_MEMO:
    'tiene el memo {column}, que está en otro archivo y no se lee; dejalo afuera con dbf: {skip}',
  DBF_TYPE_UNREAD:
    'tiene la columna {column} de un tipo que no se lee ({type}); dejala afuera con dbf: {skip}',
  CUT_WHILE_READ: 'se cortó mientras se leía',

  // Excel.
  ZIP_DAMAGED: 'no es un {format} que se pueda leer: está cortado o dañado',
  ZIP_TOO_MANY_PARTS: 'tiene más de {most} partes',
  ZIP_NO_PART: 'no es un {format}: no tiene la parte {part}',
  ZIP_TOO_LARGE: 'ocupa más de {most} bytes cuando se descomprime ({part})',
  NOT_A_BOOK: 'no es un {format}',
  PART_NOT_UTF8: 'está dañado: su parte {part} no es UTF-8',
  PART_DAMAGED: 'está dañado: su parte {part} {what}',
  NO_SHEET: 'no tiene la hoja {sheet} (hay {found})',
  SHEET_WITHOUT_CELLS: 'tiene la hoja {sheet}, que no tiene celdas',
  NO_COLUMN_NAMES: 'no tiene nombres de columnas en la fila {row} (xlsx.headerRow)',
  COLUMN_NAME_TOO_LONG:
    'tiene un nombre de más de {most} caracteres para la columna {column}, en la fila {row}',
  TOO_MUCH_SHARED_TEXT:
    'tiene más de {most} caracteres de textos compartidos; guardado como CSV se puede leer',
  TOO_MANY_SHARED_TEXTS: 'tiene más de {most} textos compartidos; guardado como CSV se puede leer',
  TOO_MANY_STYLES: 'tiene más de {most} estilos de celdas',
  ROW_TOO_LONG: 'tiene más de {most} caracteres en la fila {row}',
  TOO_MANY_CELLS: 'tiene más de {most} celdas; guardado como CSV se puede leer',
  CELL_TEXT_MISSING: 'está dañado: falta el texto de la celda {cell}',
  CELL_TYPE_UNKNOWN: 'tiene un valor de un tipo desconocido en la celda {cell} de la hoja {sheet}',
  CELL_WITHOUT_PLACE: 'está dañado: una celda no tiene lugar',
  CELL_NO_NUMBER: 'no tiene un número en la celda {cell} de la hoja {sheet}',
  CELL_DATE_TOO_EARLY:
    'tiene el número negativo {value} como fecha en la celda {cell} de la hoja {sheet}; dale a la celda formato de número',
  CELL_DATE_TOO_LATE:
    'tiene el número {value} como fecha posterior al año 9999 en la celda {cell} de la hoja {sheet}; dale a la celda formato de número',
  CELL_NOT_COMPUTED:
    'tiene una fórmula sin valor calculado en la celda {cell} de la hoja {sheet}; abrí y guardá el libro en una planilla de cálculo',
  CELL_ERROR: 'tiene el error {error} en la celda {cell} de la hoja {sheet}',
} as const
