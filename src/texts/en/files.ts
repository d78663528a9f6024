/** Why a file could not be read. Those that begin with a verb follow the name of the file, or `the answer`. */
export const files = {
  IN_FILE: '{path} {what}',
  NO_FILE: 'there is no file {path} to read',
  FILE_SETTLING: '{path} changed less than {ms} ms ago (source.settle); it is read by a later poll',
  FILE_WITHOUT_MARKER:
    '{path} waits for its marker {marker} (source.ready), which is missing or older than it',
  FILE_BEGUN:
    '{path} is empty; it waits until something is written, or nothing has changed for {ms} ms',
  FILE_ENDS_IN_LINE:
    '{path} ends within a line; its last record waits until the line has its end, or nothing has changed for {ms} ms',
  FILE_ENDS_IN_LINE_TAKEN:
    '{path} ends within a line. Nothing changed for {ms} ms, so its last record counts as it is and may be cut. A line end or source.ready prevents that',
  FILE_NOT_ARCHIVED: '{path} was read, but it cannot be archived: {what}',
  FILE_NOT_DELETED: '{path} was read, but it cannot be deleted: {what}',
  NOT_REGULAR: '{path} is not a regular file (links are not followed)',
  CHANGED_MEANWHILE: '{path} changed while it was read; it is read again by the next poll',
  REPLACED_TWICE:
    '{path} was replaced twice while the service moved it. The file in between was not read; it is {target} now',
  FILE_TOO_LARGE: '{path} has {size} bytes, more than {most} MiB (source.maxMegabytes)',
  TOO_MANY_FILES: '{folder} has more than {most} files',
  SIZE_NOT_SAID: 'the server does not give the size of {path}',

  IT: 'it {what}',
  IS_NOT_REGULAR: 'is not a regular file',
  CANNOT_BE_READ: 'cannot be read[ ({code})]',
  SERVICE_SECRETS: 'holds secrets of the service itself',
  OUTSIDE_FOLDER: 'is outside the folder of the connection',
  LARGER_THAN: 'is larger than {most} KiB',

  // Any format.
  EMPTY: 'is empty',
  EMPTY_WITHOUT_HEADER: 'is empty: not even a header',
  NOT_UTF8:
    'is not UTF-8; of another encoding csv and fixed can be read (encoding: latin1, cp850, …)',
  NO_CHARACTERS_OF: 'holds bytes that are no character of {encoding}',
  OTHER_MARK:
    'begins with the mark of {found}, but its encoding is {given}; write encoding: {found}',
  OTHER_ENCODING: 'looks like {found}, but its encoding is {given}; write encoding: {found}',
  TEXT_BEHIND_END: 'has text behind the sign of its end (Ctrl-Z)',
  LINE_TOO_LONG: 'has more than {most} characters in line {line}[ in {field}]',
  NESTED_TOO_DEEP: 'is nested deeper than {most} levels',
  TOO_MANY_COLUMNS_READ: 'has more than {most} columns',
  COLUMN_NAMED_TWICE: 'has the column {column} twice[, in row {row}]',

  // CSV and lines of fixed width.
  OTHER_COUNT_THAN_HEADER:
    'has a record with another number of values than the header, at line {line}',
  OTHER_COUNT_THAN_COLUMNS:
    'has a record with another number of values than the names of csv.columns, at line {line}',
  NO_TRAILING_DELIMITER:
    'has no delimiter behind the last value at line {line} (csv.trailingDelimiter)',
  HEADER_TOO_WIDE: 'has {columns} columns in its header; {most} are the most',
  HEADER_WITHOUT_NAME: 'has no name for column {column} in its header',
  CSV_LINE_TOO_LONG:
    'has a line longer than {most} characters, line {line}[, most of it in the column {column}]',
  THE_END: 'the end',
  THE_LINE: 'line {line}',
  CSV_QUOTE_INSIDE:
    'has a quote inside a value that is not quoted, at {place}; put such a value in quotes, and double its own (csv.quotes)',
  CSV_TEXT_BEHIND_QUOTE:
    'has text behind a closing quote, at {place}; a quote inside a quoted value is doubled',
  CSV_QUOTE_OPEN: 'has a quote that is not closed, at {place}',
  CSV_RECORD_TOO_LONG:
    'has a record longer than {most} characters, at {place}[, in the column {column}]',
  CSV_MALFORMED: 'is not well-formed CSV at {place} ({code})',
  FIXED_LINE_SHORT:
    'has a line of {length} characters, line {line}; its columns need {width} (fixed.mayEndEarly)',
  FIXED_NO_NUMBER: 'has no number in the column {column}, line {line} (type {type})',
  FIXED_NO_WHOLE_NUMBER: 'has no whole number in the column {column}, line {line} (type {type})',
  FIXED_NO_DATE: 'has no date in the column {column}, line {line} (type {type})',
  NEEDS_FIXED_COLUMNS: 'needs fixed.columns',

  // JSON.
  JSON_TOO_LONG: 'is longer than {most} characters, the most for format json; ndjson has no limit',
  NOT_JSON: 'is not JSON',
  LIST_TOO_LONG: 'holds a list of more than {most} entries',
  TOO_MUCH_NESTED: 'holds more than {most} lists and objects in one record',
  VALUE_TOO_LONG: 'holds a value longer than {most} characters[ in {field}]',
  LINE_NO_JSON: 'has no JSON in line {line}',
  LINE_NO_OBJECT: 'has {kind} in line {line}, not an object',
  NO_LINE_OBJECT: 'has no line with an object; it {what}',

  // XML.
  XML_MALFORMED: 'is not well-formed XML in line {line}: {said}',
  XML_DOCTYPE: 'has a document type declaration, which is not read',
  XML_TOO_MANY_ATTRIBUTES: 'has an element with more than {most} attributes in line {line}',
  XML_RECORD_TOO_LONG: 'has a record longer than {most} characters, record {record} in line {line}',
  XML_TOO_MUCH_OUTSIDE:
    'has more than {most} characters that are no record; is items ({items}) right?',
  XML_SECOND_DOCUMENT: 'has a second document behind the first, in line {line}',
  XML_NO_PARENT: 'items ({items}) is missing: the element around it is not there',
  XML_OTHER_ROOT: 'items ({items}) is missing: the root of the document is not there',
  XML_FIELD_TWICE:
    'has the field {field} more than once in record {record}, line {line}; a path that ends in [] takes them all',

  XML_STEP: 'has a step that is no name of XML: {step}',
  XML_STEP_NOT_LAST: 'has @ or [] before its last step',
  XML_PREFIX: 'has the prefix {prefix}, which xml.namespaces does not name',

  // DBF.
  DBF_TOO_SHORT: 'is no DBF file: it is too short',
  DBF_UNKNOWN: 'is no DBF file that is known (dBase III to Visual FoxPro)',
  DBF_CUT: 'is cut: its header says {records} records, and there are {there}',
  DBF_BEING_WRITTEN: 'has more records than its header says: another program is writing it',
  DBF_TRAILING: 'has something behind its last record: it is damaged',
  DBF_NO_RECORD: 'has no record where record {record} should begin: it is damaged',
  DBF_BAD_COLUMN: 'is damaged: a column has no name or length',
  DBF_COLUMNS_MISFIT: 'is damaged: its columns do not fit into its records',
  DBF_NO_COLUMN: 'has no column {column} (dbf.skip)',
  DBF_NOTHING_READ: 'has no column that is read',
  DBF_NO_CODE_PAGE:
    'does not name its code page, and record {record} has a letter beyond ASCII in the column {column} (dbf.encoding)',
  DBF_NO_VALUE: 'has no value of type {type} in the column {column}, record {record}',
  DBF_MEMO:
    'has the memo {column}, which is in another file and is not read; leave it out by dbf: {skip}',
  DBF_TYPE_UNREAD:
    'has the column {column} of a type that is not read ({type}); leave it out by dbf: {skip}',
  CUT_WHILE_READ: 'was cut while it was read',

  // Excel.
  ZIP_DAMAGED: 'is no {format} that can be read: it is cut or damaged',
  ZIP_TOO_MANY_PARTS: 'has more than {most} parts',
  ZIP_NO_PART: 'is no {format}: it has no part {part}',
  ZIP_TOO_LARGE: 'is larger than {most} bytes when it is unpacked ({part})',
  NOT_A_BOOK: 'is no {format}',
  PART_NOT_UTF8: 'is damaged: its part {part} is not UTF-8',
  PART_DAMAGED: 'is damaged: its part {part} {what}',
  NO_SHEET: 'has no sheet {sheet} (there are {found})',
  SHEET_WITHOUT_CELLS: 'has the sheet {sheet}, which holds no cells',
  NO_COLUMN_NAMES: 'has no names of columns in row {row} (xlsx.headerRow)',
  COLUMN_NAME_TOO_LONG:
    'has a name of more than {most} characters for the column {column}, in row {row}',
  TOO_MUCH_SHARED_TEXT:
    'has more than {most} characters of shared texts; saved as CSV it can be read',
  TOO_MANY_SHARED_TEXTS: 'has more than {most} shared texts; saved as CSV it can be read',
  TOO_MANY_STYLES: 'has more than {most} styles of cells',
  ROW_TOO_LONG: 'has more than {most} characters in row {row}',
  TOO_MANY_CELLS: 'has more than {most} cells; saved as CSV it can be read',
  CELL_TEXT_MISSING: 'is damaged: the text of the cell {cell} is missing',
  CELL_TYPE_UNKNOWN: 'has a value of an unknown type in the cell {cell} of the sheet {sheet}',
  CELL_WITHOUT_PLACE: 'is damaged: a cell has no place',
  CELL_NO_NUMBER: 'has no number in the cell {cell} of the sheet {sheet}',
  CELL_DATE_TOO_EARLY:
    'has the negative number {value} as a date in the cell {cell} of the sheet {sheet}; give the cell the format of a number',
  CELL_DATE_TOO_LATE:
    'has the number {value} as a date after the year 9999 in the cell {cell} of the sheet {sheet}; give the cell the format of a number',
  CELL_NOT_COMPUTED:
    'has a formula without a computed value in the cell {cell} of the sheet {sheet}; open and save the workbook in a spreadsheet program',
  CELL_ERROR: 'has the error {error} in the cell {cell} of the sheet {sheet}',
} as const
