/** Why the payment API refuses a field. Each sentence follows the name of the field. */
export const fields = {
  // Zod's own checks.
  'field.FIELD_UNKNOWN': 'no es un campo conocido',
  'field.FIELD_MISSING': 'falta',
  'field.NOT_A_TEXT': 'tiene que ser un texto',
  'field.NOT_A_NUMBER': 'tiene que ser un número',
  'field.NOT_WHOLE': 'tiene que ser un número entero',
  'field.NOT_YES_OR_NO': 'tiene que ser true o false',
  'field.NOT_A_LIST': 'tiene que ser una lista',
  'field.NOT_AN_OBJECT': 'tiene que ser un objeto',
  'field.TEXT_EMPTY': 'está vacío',
  'field.TEXT_TOO_SHORT': 'tiene que tener al menos {least} caracteres',
  'field.TEXT_TOO_LONG': 'puede tener hasta {most} caracteres',
  'field.LIST_TOO_SHORT': 'tiene que tener al menos {least}',
  'field.LIST_TOO_LONG': 'puede tener hasta {most}',
  'field.NUMBER_TOO_SMALL': 'tiene que ser {least} o más',
  'field.NUMBER_NOT_ABOVE': 'tiene que ser más que {least}',
  'field.NUMBER_TOO_BIG': 'puede ser hasta {most}',
  'field.NUMBER_NOT_BELOW': 'tiene que ser menos que {most}',
  'field.NUMBER_NOT_MULTIPLE': 'tiene que ser un múltiplo de {of}',
  'field.NOT_ONE_OF': 'tiene que ser uno de estos: {known}',
  'field.FORM_WRONG': 'no tiene la forma correcta',
  'field.NOT_A_DAY': 'tiene que ser un día, como 2026-12-31',
  'field.NOT_A_TIME': 'tiene que ser un momento, como 2026-12-31T10:00:00Z',
  'field.NOT_AN_ADDRESS': 'tiene que ser una dirección web',
  'field.NOT_A_UUID': 'tiene que ser un UUID',
  'field.VALUE_WRONG': 'no se permite',

  // Forms.
  'field.TEXT_NOT_PLAIN':
    'no puede tener caracteres de control ni empezar con una marca de orden de bytes',
  'field.TEXT_BROKEN': 'no puede tener caracteres NUL ni Unicode incompleto',
  'field.TEXT_WITH_OUTER_SPACE': 'no puede empezar ni terminar con un espacio',
  'field.TEXT_NOT_PRINTABLE': 'tiene que tener de 1 a 128 caracteres visibles, sin espacios',
  'field.TEXT_NOT_ENCODED': 'tiene que ser un texto codificado con % de hasta 300 caracteres',
  'field.HASH_WRONG': 'tiene que tener 64 dígitos hexadecimales',
  'field.AMOUNT_FORM':
    'tiene que ser un importe con coma y uno o dos decimales, por ejemplo 1234,50',
  'field.AMOUNT_ZERO': 'tiene que ser más que cero',
  'field.COUNT_FORM': 'tiene que ser un número entero de {least} a {most}',
  'field.TEXT_TOO_LARGE': 'puede ocupar hasta {most} KiB',
  'field.FILE_NAME_FORM': 'tiene que ser un nombre con a-z, 0-9, - y _',
  'field.COUNTED_FORM': 'tiene que ser un importe, como 1000,00',
  'field.AMOUNT_NOT_WHOLE':
    'tiene que terminar en ",00": la cuenta de Mercado Pago toma {currency} sin centavos (llegó "{amount}")',
  'field.REFUND_NOT_WHOLE':
    'tiene que terminar en ",00": la moneda de la cuenta de Mercado Pago no tiene centavos (llegó "{amount}")',
  'field.TARGET_NOT_ALLOWED':
    'tiene que ser una dirección http(s) completa de este servicio, de esta máquina o de un origen de OAUTH_TARGET_ORIGINS',
  'field.CURSOR_UNKNOWN': 'tiene que ser un cursor que dio esta lista',
  'field.TIME_ZONE_NAME': 'tiene que ser el nombre de una zona horaria',
  'field.TIME_ZONE_UNKNOWN': 'tiene que ser un nombre como America/Argentina/Buenos_Aires',
  'field.OFFSET_UNKNOWN': 'tiene que ser una diferencia horaria, como GMT-03 o -03:00',
  'field.PERSON_NAME': 'tiene que ser el nombre de una persona',
  'field.PROVIDER_REFUSED_FIELD': 'Mercado Pago no lo acepta ({said})',

  'field.STORE_REFUSED':
    'Mercado Pago no acepta el nombre, el código o la ubicación de la sucursal',

  // Spans of time.
  'field.DAY_OUT_OF_RANGE': 'tiene que ser un día de esta época',
  'field.SPAN_AND_DAY': 'no va junto con business_day',
  'field.DAY_NOT_BEGUN': 'todavía no empezó',
  'field.DAY_OR_SPAN': 'hace falta, o si no from y to',
  'field.FROM_IN_FUTURE': 'está en el futuro',
  'field.SPAN_WRONG': 'tiene que ser después del comienzo y a lo sumo 32 días más tarde',
  'field.TO_BEFORE_FROM': 'no puede ser antes del comienzo',
  'field.SPAN_TOO_LONG': 'tiene que ser menos de {days} días después del comienzo',
  'field.TO_NOT_OVER': 'tiene que haber terminado: los reportes están completos hasta ayer',

  // Combinations.
  'field.REQUIRED': 'hace falta',
  'field.CLIENT_ONE': 'tiene que ser el nombre de un solo cliente',
  'field.CLIENT_REQUIRED': 'hace falta con el token de administrador: para qué cliente es',
  'field.CLIENT_OR_KEY': 'hace falta, o key_id',
  'field.KEY_AND_CLIENT': 'no va junto con client: revocá una clave, o todas las de un cliente',
  'field.BOX_OR_STORE': 'elegí una caja o una sucursal, no las dos',
  'field.CURSOR_AND_OFFSET': 'no va junto con offset',
  'field.CURSOR_AND_CONSUMER': 'no va junto con consumer: su lugar se guarda acá',
  'field.PLACE_OR_CURSOR': 'falta; si no, mandá after',
  'field.ENDPOINT_ADDRESS': 'tiene que ser una dirección https sin usuario ni contraseña',
  'field.ENDPOINT_PRIVATE':
    'no puede ser local, privada ni http: el operador lo permite con EVENTS_PRIVATE_NETWORK',
  'field.ENDPOINT_METADATA': 'no puede ser una dirección link-local ni un servicio de metadatos',
  'field.REPLAY_WHICH': 'falta; si no, mandá from o failed: exactamente uno',
  'field.REPLAY_TOO_MANY': 'no puede abarcar más de {most} eventos: elegí un tiempo más corto',
  'field.CHECKPOINT_INCOMPLETE': 'mandá checkpoint_seq y checkpoint_hash juntos',
  'field.REFUND_ID_UNASKED': 'va solo con "refunded"',
  'field.METHOD_UNASKED': 'va solo con el estado processed o failed',
  'field.ID_TWICE': 'este código está dos veces',

  // People.
  'field.CODE_WRONG': 'no es el código que la app muestra ahora',
  'field.PASSWORD_WRONG': 'no es correcta',
  'field.ROLE_OF_CLIENT': 'el rol {role} es de un cliente: elegí primero el cliente',
  'field.ROLE_OF_SERVICE': 'el rol {role} es de todo el servicio, no de un cliente',
  'field.STORES_OF_SUPERVISOR': 'solo un supervisor tiene sucursales',
  'field.STORES_MISSING': 'un supervisor tiene al menos una sucursal',
  'field.STORE_UNKNOWN': 'no existe la sucursal {store}',
} as const
