import { fillSentence } from '../domain/fill-sentence.ts'
import { type Language, namedLanguage } from '../domain/language.ts'

/**
 * Why the payment API refuses a field: the sentence of each code. `{…}` is filled with the reason's data. The English sentence is
 * the `message` of a detail.
 */
export const fieldReasons = {
  // Zod's own checks.
  FIELD_UNKNOWN: { en: 'is not a known field', es: 'no es un campo conocido' },
  FIELD_MISSING: { en: 'is missing', es: 'falta' },
  NOT_A_TEXT: { en: 'must be a text', es: 'tiene que ser un texto' },
  NOT_A_NUMBER: { en: 'must be a number', es: 'tiene que ser un número' },
  NOT_WHOLE: { en: 'must be a whole number', es: 'tiene que ser un número entero' },
  NOT_YES_OR_NO: { en: 'must be true or false', es: 'tiene que ser true o false' },
  NOT_A_LIST: { en: 'must be a list', es: 'tiene que ser una lista' },
  NOT_AN_OBJECT: { en: 'must be an object', es: 'tiene que ser un objeto' },
  TEXT_EMPTY: { en: 'is empty', es: 'está vacío' },
  TEXT_TOO_SHORT: {
    en: 'must have at least {least} characters',
    es: 'tiene que tener al menos {least} caracteres',
  },
  TEXT_TOO_LONG: {
    en: 'must have at most {most} characters',
    es: 'puede tener hasta {most} caracteres',
  },
  LIST_TOO_SHORT: {
    en: 'must have at least {least} entries',
    es: 'tiene que tener al menos {least}',
  },
  LIST_TOO_LONG: { en: 'must have at most {most} entries', es: 'puede tener hasta {most}' },
  NUMBER_TOO_SMALL: { en: 'must be at least {least}', es: 'tiene que ser {least} o más' },
  NUMBER_NOT_ABOVE: { en: 'must be more than {least}', es: 'tiene que ser más que {least}' },
  NUMBER_TOO_BIG: { en: 'must be at most {most}', es: 'puede ser hasta {most}' },
  NUMBER_NOT_BELOW: { en: 'must be less than {most}', es: 'tiene que ser menos que {most}' },
  NUMBER_NOT_MULTIPLE: {
    en: 'must be a multiple of {of}',
    es: 'tiene que ser un múltiplo de {of}',
  },
  NOT_ONE_OF: { en: 'must be one of {known}', es: 'tiene que ser uno de estos: {known}' },
  FORM_WRONG: { en: 'has the wrong form', es: 'no tiene la forma correcta' },
  NOT_A_DAY: { en: 'must be a day as 2026-12-31', es: 'tiene que ser un día, como 2026-12-31' },
  NOT_A_TIME: {
    en: 'must be a time as 2026-12-31T10:00:00Z',
    es: 'tiene que ser un momento, como 2026-12-31T10:00:00Z',
  },
  NOT_AN_ADDRESS: { en: 'must be an address', es: 'tiene que ser una dirección web' },
  NOT_A_UUID: { en: 'must be a UUID', es: 'tiene que ser un UUID' },
  VALUE_WRONG: { en: 'is not allowed', es: 'no se permite' },

  // Forms.
  TEXT_NOT_PLAIN: {
    en: 'must not contain control characters, nor begin with a byte order mark',
    es: 'no puede tener caracteres de control ni empezar con una marca de orden de bytes',
  },
  TEXT_BROKEN: {
    en: 'must not contain NUL characters or broken Unicode',
    es: 'no puede tener caracteres NUL ni Unicode incompleto',
  },
  TEXT_WITH_OUTER_SPACE: {
    en: 'must not begin or end with a space',
    es: 'no puede empezar ni terminar con un espacio',
  },
  TEXT_NOT_PRINTABLE: {
    en: 'must be 1 to 128 printable characters without spaces',
    es: 'tiene que tener de 1 a 128 caracteres visibles, sin espacios',
  },
  TEXT_NOT_ENCODED: {
    en: 'must be a percent-encoded text of at most 300 characters',
    es: 'tiene que ser un texto codificado con % de hasta 300 caracteres',
  },
  HASH_WRONG: {
    en: 'must be 64 hexadecimal digits',
    es: 'tiene que tener 64 dígitos hexadecimales',
  },
  AMOUNT_FORM: {
    en: 'must be digits, a decimal comma and one or two decimals, for example 1234,50',
    es: 'tiene que ser un importe con coma y uno o dos decimales, por ejemplo 1234,50',
  },
  AMOUNT_ZERO: { en: 'must be more than zero', es: 'tiene que ser más que cero' },
  COUNT_FORM: {
    en: 'must be a whole number from {least} to {most}',
    es: 'tiene que ser un número entero de {least} a {most}',
  },
  TEXT_TOO_LARGE: {
    en: 'must be at most {most} KiB',
    es: 'puede ocupar hasta {most} KiB',
  },
  FILE_NAME_FORM: {
    en: 'must be a name of a-z, 0-9, - and _',
    es: 'tiene que ser un nombre con a-z, 0-9, - y _',
  },
  COUNTED_FORM: {
    en: 'must be an amount such as 1000,00',
    es: 'tiene que ser un importe, como 1000,00',
  },
  AMOUNT_NOT_WHOLE: {
    en: 'Must end in ",00", since the provider account takes {currency} without cents (got "{amount}")',
    es: 'tiene que terminar en ",00": la cuenta de Mercado Pago toma {currency} sin centavos (llegó "{amount}")',
  },
  REFUND_NOT_WHOLE: {
    en: 'Must end in ",00", since the currency of the provider account has no cents (got "{amount}")',
    es: 'tiene que terminar en ",00": la moneda de la cuenta de Mercado Pago no tiene centavos (llegó "{amount}")',
  },
  TARGET_NOT_ALLOWED: {
    en: 'Must be an absolute http(s) URL of this service, of loopback, or of an origin in OAUTH_TARGET_ORIGINS',
    es: 'tiene que ser una dirección http(s) completa de este servicio, de esta máquina o de un origen de OAUTH_TARGET_ORIGINS',
  },
  CURSOR_UNKNOWN: {
    en: 'must be a cursor that this list has given',
    es: 'tiene que ser un cursor que dio esta lista',
  },
  TIME_ZONE_NAME: {
    en: 'must be the name of a time zone',
    es: 'tiene que ser el nombre de una zona horaria',
  },
  TIME_ZONE_UNKNOWN: {
    en: 'must be a name such as America/Argentina/Buenos_Aires',
    es: 'tiene que ser un nombre como America/Argentina/Buenos_Aires',
  },
  OFFSET_UNKNOWN: {
    en: 'must be an offset such as GMT-03 or -03:00',
    es: 'tiene que ser una diferencia horaria, como GMT-03 o -03:00',
  },
  PERSON_NAME: { en: 'must be a name of a person', es: 'tiene que ser el nombre de una persona' },
  PROVIDER_REFUSED_FIELD: {
    en: 'the provider refused it ({said})',
    es: 'Mercado Pago no lo acepta ({said})',
  },

  STORE_REFUSED: {
    en: 'the provider does not accept name, external_id or location of the store',
    es: 'Mercado Pago no acepta el nombre, el código o la ubicación de la sucursal',
  },

  // Spans of time.
  DAY_OUT_OF_RANGE: {
    en: 'must be a day of our time',
    es: 'tiene que ser un día de esta época',
  },
  SPAN_AND_DAY: {
    en: 'cannot be combined with business_day',
    es: 'no va junto con business_day',
  },
  DAY_NOT_BEGUN: { en: 'has not begun yet', es: 'todavía no empezó' },
  DAY_OR_SPAN: {
    en: 'is required, or else from and to',
    es: 'hace falta, o si no from y to',
  },
  FROM_IN_FUTURE: { en: 'is in the future', es: 'está en el futuro' },
  SPAN_WRONG: {
    en: 'must be after `from` and at most 32 days later',
    es: 'tiene que ser después del comienzo y a lo sumo 32 días más tarde',
  },
  TO_BEFORE_FROM: {
    en: 'must not be before `from`',
    es: 'no puede ser antes del comienzo',
  },
  SPAN_TOO_LONG: {
    en: 'must be less than {days} days after `from`',
    es: 'tiene que ser menos de {days} días después del comienzo',
  },
  TO_NOT_OVER: {
    en: 'must be over: reports are complete up to yesterday',
    es: 'tiene que haber terminado: los reportes están completos hasta ayer',
  },

  // Combinations.
  REQUIRED: { en: 'Required', es: 'hace falta' },
  CLIENT_ONE: {
    en: 'must be the name of one client',
    es: 'tiene que ser el nombre de un solo cliente',
  },
  CLIENT_REQUIRED: {
    en: 'is required with the admin token: the client to act for',
    es: 'hace falta con el token de administrador: para qué cliente es',
  },
  CLIENT_OR_KEY: { en: 'is required, or key_id', es: 'hace falta, o key_id' },
  KEY_AND_CLIENT: {
    en: 'cannot be combined with client: revoke one key, or all of a client',
    es: 'no va junto con client: revocá una clave, o todas las de un cliente',
  },
  BOX_OR_STORE: {
    en: 'name either a box or a store',
    es: 'elegí una caja o una sucursal, no las dos',
  },
  CURSOR_AND_OFFSET: {
    en: 'cannot be combined with offset',
    es: 'no va junto con offset',
  },
  CHECKPOINT_INCOMPLETE: {
    en: 'send both checkpoint_seq and checkpoint_hash',
    es: 'mandá checkpoint_seq y checkpoint_hash juntos',
  },
  REFUND_ID_UNASKED: {
    en: 'is allowed only with "refunded"',
    es: 'va solo con "refunded"',
  },
  METHOD_UNASKED: {
    en: 'goes with status processed or failed only',
    es: 'va solo con el estado processed o failed',
  },
  ID_TWICE: {
    en: 'This id appears twice in the request',
    es: 'este código está dos veces',
  },

  // People.
  CODE_WRONG: {
    en: 'is not the code that the app shows now',
    es: 'no es el código que la app muestra ahora',
  },
  PASSWORD_WRONG: { en: 'is wrong', es: 'no es correcta' },
  ROLE_OF_CLIENT: {
    en: 'the role {role} needs a client',
    es: 'el rol {role} es de un cliente: elegí primero el cliente',
  },
  ROLE_OF_SERVICE: {
    en: 'the role {role} is of no client',
    es: 'el rol {role} es de todo el servicio, no de un cliente',
  },
  STORES_OF_SUPERVISOR: {
    en: 'only a supervisor has stores',
    es: 'solo un supervisor tiene sucursales',
  },
  STORES_MISSING: {
    en: 'a supervisor has at least one store',
    es: 'un supervisor tiene al menos una sucursal',
  },
  STORE_UNKNOWN: { en: 'there is no store {store}', es: 'no existe la sucursal {store}' },
} as const satisfies Record<string, { en: string; es: string }>

export type FieldReasonCode = keyof typeof fieldReasons
export type FieldReason = {
  code: FieldReasonCode
  data?: Readonly<Record<string, string | number>> | undefined
}

/** Languages without texts of their own get English. */
export function fieldSentence({ code, data = {} }: FieldReason, language: Language): string {
  const values = Object.entries(data).map(([name, value]) => [name, String(value)])
  return fillSentence(
    fieldReasons[code][language === 'es' ? 'es' : 'en'],
    Object.fromEntries(values),
  )
}

/** A reason with its sentence in the language that an Accept-Language names; undefined where it names none. */
export function shownFieldReason(why: FieldReason, acceptLanguage: string | undefined) {
  const language = namedLanguage(acceptLanguage)
  if (!language) return undefined
  const message = fieldSentence(why, language)
  return { code: why.code, data: why.data ?? {}, message }
}

const prefix = '{"field":'

/** A reason as the message of a Zod issue, which must be a text. `fieldReasonIn` decodes it. */
export function fieldMessage(reason: FieldReason): string {
  return JSON.stringify({ field: reason })
}

/** Undefined for Zod's own messages. */
export function fieldReasonIn(message: string): FieldReason | undefined {
  return message.startsWith(prefix)
    ? (JSON.parse(message) as { field: FieldReason }).field
    : undefined
}
