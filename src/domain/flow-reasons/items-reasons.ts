import type { ReasonTexts } from './reason-texts.ts'

/** Why a record is no item, a mapping makes no body of it, or a body makes no request. */
export const itemReasons = {
  // What a value is.
  KIND_MISSING: { en: 'missing', es: 'nada: falta' },
  KIND_NOTHING: { en: 'nothing', es: 'nada' },
  KIND_NULL: { en: 'null', es: 'null' },
  KIND_LIST: { en: 'a list', es: 'una lista' },
  KIND_OBJECT: { en: 'an object', es: 'un objeto' },
  KIND_STRING: { en: 'a string', es: 'un texto' },
  KIND_NUMBER: { en: 'a number', es: 'un número' },
  KIND_BOOLEAN: { en: 'a boolean', es: 'un valor lógico' },
  KIND_OTHER: { en: 'a {type}', es: 'un {type}' },

  // Fields, keys and the filter of an item.
  FIELD_REFUSED: { en: 'the field {field} {what}', es: 'el campo {field} {what}' },
  FIELD_IS: { en: 'is a {type}', es: 'es un {type}' },
  FIELD_NOT_FINITE: { en: 'is {value}', es: 'es {value}' },
  FIELD_NO_DECIMAL: {
    en: 'is no number with a decimal point, but hash.decimals names it',
    es: 'no es un número con punto decimal, pero hash.decimals lo nombra',
  },
  FIELD_TOO_DEEP: { en: 'is deeper than {most} levels', es: 'tiene más de {most} niveles' },
  FIELD_OF_CLASS: {
    en: 'is an object of the class {name}',
    es: 'es un objeto de la clase {name}',
  },
  FIELD_WITH_HOLE: { en: 'has a hole', es: 'tiene un hueco' },
  FIELD_TWICE: { en: 'is there twice', es: 'está dos veces' },
  FIELD_WITH_NUL: { en: 'holds the character NUL', es: 'tiene el carácter NUL' },
  FIELD_BROKEN_UNICODE: {
    en: 'holds half a character (invalid UTF-16)',
    es: 'tiene medio carácter (UTF-16 inválido)',
  },
  FIELD_NO_DATE: { en: 'is no valid date', es: 'no es una fecha válida' },
  FIELD_NAME_RESERVED: {
    en: 'a field must not be called __proto__',
    es: 'un campo no puede llamarse __proto__',
  },
  ITEM_TOO_LONG: {
    en: 'the item is longer than {most} characters, most of them in the field {field}; leave it out',
    es: 'el ítem tiene más de {most} caracteres, la mayoría en el campo {field}; dejalo afuera',
  },
  ITEM_TOO_MANY_VALUES: {
    en: 'the item has more than {most} values, most of them in the field {field}; is its key right?',
    es: 'el ítem tiene más de {most} valores, la mayoría en el campo {field}; ¿está bien su clave?',
  },
  ITEM_TOO_MANY_FIELDS: {
    en: 'the item has more than {most} fields',
    es: 'el ítem tiene más de {most} campos',
  },
  OBJECT_TOO_MANY_FIELDS: {
    en: 'the field {field} has more than {most} fields',
    es: 'el campo {field} tiene más de {most} campos',
  },
  ITEM_KEY_MISSING: {
    en: 'the key field {field} is null or missing',
    es: 'el campo {field} de la clave es null o falta',
  },
  ITEM_KEY_NOT_SINGLE: {
    en: 'the key field {field} is not a single value',
    es: 'el campo {field} de la clave no es un solo valor',
  },
  ITEM_KEY_BLANK: {
    en: 'the key field {field} is blank',
    es: 'el campo {field} de la clave está en blanco',
  },
  ITEM_KEY_TOO_LONG: {
    en: 'the key is longer than {most} characters',
    es: 'la clave tiene más de {most} caracteres',
  },
  ITEM_KEY_TOO_MANY_BYTES: {
    en: 'the key is longer than {most} bytes',
    es: 'la clave ocupa más de {most} bytes',
  },
  ITEM_FILTER_FALSE: {
    en: 'item.filter is not true for it',
    es: 'item.filter no da true para este ítem',
  },
  ITEM_FILTER_FAILED: { en: 'item.filter failed: {what}', es: 'item.filter falló: {what}' },
  GROUP_DIFFERS: {
    en: 'the records of {pk} differ in {field}; only the columns of groupBy.children may',
    es: 'los registros de {pk} difieren en {field}; sólo pueden diferir las columnas de groupBy.children',
  },

  // Expressions.
  EXPRESSION_FAILED: { en: 'the expression failed', es: 'la expresión falló' },
  EXPRESSION_TOO_SLOW: {
    en: 'the expression used more than {seconds} s of processor time and was ended',
    es: 'la expresión usó más de {seconds} s de procesador y se cortó',
  },
  EXPRESSION_OUT_OF_MEMORY: {
    en: 'the expression used too much memory and was ended',
    es: 'la expresión usó demasiada memoria y se cortó',
  },
  EXPRESSION_ENDED_THREAD: {
    en: 'the expression ended its thread',
    es: 'la expresión terminó su hilo',
  },
  EXPRESSION_GIVEN_TOO_MUCH: {
    en: 'the expression would be given more than {most} characters; one without functions may be',
    es: 'la expresión recibiría más de {most} caracteres; una sin funciones puede',
  },
  EXPRESSION_EVAL: { en: '$eval is not available', es: '$eval no está disponible' },
  EXPRESSION_TEXT_TOO_LONG: {
    en: 'a text became longer than {most} characters',
    es: 'un texto pasó de {most} caracteres',
  },
  RESULT_TOO_LARGE: {
    en: 'the result is larger than {most} characters',
    es: 'el resultado tiene más de {most} caracteres',
  },
  RESULT_TOO_DEEP: {
    en: 'the result is deeper than {most} levels',
    es: 'el resultado tiene más de {most} niveles',
  },
  RESULT_NO_NUMBER: {
    en: 'the result holds {value}, which is no number in JSON',
    es: 'el resultado tiene {value}, que no es un número en JSON',
  },
  RESULT_KIND: { en: 'the result holds a {type}', es: 'el resultado tiene un valor {type}' },
  RESULT_FUNCTION: { en: 'the result holds a function', es: 'el resultado tiene una función' },
  RESULT_NAME_RESERVED: {
    en: 'the result holds the field __proto__',
    es: 'el resultado tiene el campo __proto__',
  },

  // Mappings.
  MAP_FAILED: {
    en: 'map failed[ at line {line}, column {column} ({text})]: {what}; item: {item}',
    es: 'map falló[ en la línea {line}, columna {column} ({text})]: {what}; ítem: {item}',
  },
  FIELDS_FAILED: {
    en: 'fields failed: {problems}; item: {item}',
    es: 'fields falló: {problems}; ítem: {item}',
  },
  FIELDS_NO_FIELD: {
    en: '{name}: the item has no field {field}',
    es: '{name}: el ítem no tiene el campo {field}',
  },
  FIELDS_NOT_CONVERTED: {
    en: '{name}: {field} is {value}, not {expected}',
    es: '{name}: {field} es {value}, no {expected}',
  },
  EXPECTED_SINGLE: { en: 'a single value for {type}', es: 'un solo valor para {type}' },
  EXPECTED_INTEGER: {
    en: 'a whole number such as 42',
    es: 'un número entero, por ejemplo 42',
  },
  EXPECTED_DECIMAL: { en: 'a number such as 1234.50', es: 'un número, por ejemplo 1234.50' },
  EXPECTED_DECIMAL_COMMA: {
    en: 'a number such as 1.234,50 or 1234,50',
    es: 'un número, por ejemplo 1.234,50 o 1234,50',
  },
  EXPECTED_BOOLEAN: {
    en: 'true or false (also 1/0, yes/no, si/no, s/n, verdadero/falso)',
    es: 'true o false (también 1/0, yes/no, si/no, s/n, verdadero/falso)',
  },
  EXPECTED_DATE: {
    en: 'a date such as 2026-03-31, 31/03/2026 or 2026-03-31T12:00:00Z',
    es: 'una fecha, por ejemplo 2026-03-31, 31/03/2026 o 2026-03-31T12:00:00Z',
  },
  FILTER_FAILED: { en: 'filter failed: {what}', es: 'el filtro falló: {what}' },
  BODY_MISFIT: {
    en: 'the mapping does not fit the destination: {problems}',
    es: 'lo que da la conversión no es lo que toma el destino: {problems}',
  },
  BODY_FIELD_MISFIT: {
    en: '{field}: {what}[, got {found}]',
    es: '{field}: {what}[, y vino {found}]',
  },
  UNKNOWN_FIELDS: {
    en: 'has fields that are not known: {fields}',
    es: 'tiene campos que no se conocen: {fields}',
  },
  MUST_BE_A_LIST: {
    en: 'expected a list; JSONata makes one entry an object unless the list is in [ ]',
    es: 'se esperaba una lista; JSONata hace de una sola entrada un objeto, salvo que la lista esté entre [ ]',
  },
  CONTROL_CHARACTERS: {
    en: 'must not contain control characters, nor begin with a byte order mark',
    es: 'no puede tener caracteres de control ni empezar con una marca de orden de bytes',
  },
  MUST_NOT_BE_BLANK: { en: 'must not be blank', es: 'no puede estar en blanco' },
  THE_BODY: { en: 'the body', es: 'el cuerpo' },
  AND_MORE: { en: 'and {count} more', es: 'y {count} más' },
  OBJECT_WITH: { en: 'an object ({names})', es: 'un objeto ({names})' },

  // Requests.
  ADDRESS_EMPTY_SEGMENT: {
    en: 'the address has an empty segment',
    es: 'la dirección tiene un segmento vacío',
  },
  ADDRESS_KEY: {
    en: 'the key {pk} cannot be in an address',
    es: 'la clave {pk} no puede estar en una dirección',
  },
  PLACEHOLDER_EMPTY: {
    en: 'there is no value for {placeholder}',
    es: 'no hay un valor para {placeholder}',
  },
  PLACEHOLDER_BROKEN_UNICODE: {
    en: '{placeholder} holds broken Unicode',
    es: '{placeholder} tiene Unicode dañado',
  },
  PK_BROKEN_UNICODE: { en: 'the key holds broken Unicode', es: 'la clave tiene Unicode dañado' },
  PLACEHOLDER_NOT_REMEMBERED: {
    en: 'nothing is remembered of the item for {placeholder}',
    es: 'no se recuerda nada del ítem para {placeholder}',
  },
  PLACEHOLDER_NOT_MAPPED: {
    en: 'the mapped body has no value for {placeholder}',
    es: 'el cuerpo convertido no tiene un valor para {placeholder}',
  },
  DELETE_NEEDS: {
    en: 'the delete needs {name}, which has no value on record: delete it at the destination by hand',
    es: 'la baja necesita {name}, que no tiene un valor registrado: borralo a mano en el destino',
  },
  REQUEST_BODY_FAILED: {
    en: 'the body of the request failed: {what}',
    es: 'el cuerpo del pedido falló: {what}',
  },
  FORM_NEEDS_OBJECT: { en: 'a form needs an object', es: 'un formulario necesita un objeto' },
  XML_NEEDS_ROOT: {
    en: 'XML needs an object of one field, its root',
    es: 'XML necesita un objeto de un solo campo, su raíz',
  },
  XML_ELEMENT_NAME: {
    en: '{name} is no name of an element',
    es: '{name} no es un nombre de elemento',
  },
  XML_ATTRIBUTE_NAME: {
    en: '{name} is no name of an attribute',
    es: '{name} no es un nombre de atributo',
  },
  XML_NESTED_TOO_DEEP: {
    en: 'the elements are nested too deeply',
    es: 'los elementos tienen demasiados niveles',
  },
  XML_TEXT_KIND: {
    en: 'a list or an object cannot be a text of XML',
    es: 'una lista o un objeto no puede ser un texto de XML',
  },
  BATCH_BODY_NOTHING: { en: 'batch.body gives nothing', es: 'batch.body no da nada' },
  BATCH_BODY_FAILED: { en: 'batch.body failed: {what}', es: 'batch.body falló: {what}' },
  BATCH_ANSWERS_FAILED: { en: 'batch.answers failed: {what}', es: 'batch.answers falló: {what}' },
  BATCH_NO_JSON: {
    en: 'the answer to the batch is no JSON',
    es: 'la respuesta al lote no es JSON',
  },
  BATCH_COUNT: {
    en: 'the answer is about {count} items of {items}',
    es: 'la respuesta habla de {count} ítems de {items}',
  },
  ANSWER_CUT: { en: 'is too large to be read', es: 'es demasiado grande para leerse' },
  ANSWER_NO_JSON: { en: 'is no JSON', es: 'no es JSON' },
  REMEMBER_TOO_LONG: {
    en: 'has too long a value for {name}',
    es: 'tiene un valor demasiado largo para {name}',
  },
  REMEMBER_FAILED: {
    en: 'makes remember.{name} fail: {what}',
    es: 'hace fallar remember.{name}: {what}',
  },
  REMEMBER_MANY: {
    en: 'has {count} values for {name}, not one',
    es: 'tiene {count} valores para {name}, no uno',
  },
  REMEMBER_OBJECT: { en: 'has an object for {name}', es: 'tiene un objeto para {name}' },
  UNUSABLE_NAME: {
    en: '{name} cannot be the name of a column or table',
    es: '{name} no puede ser el nombre de una columna o tabla',
  },
} as const satisfies ReasonTexts
