/** What a cashier reads about an order, and about a terminal that has another one. */
export const cashier = {
  'cashier.unknown':
    'El cobro se está verificando. No vuelvas a cobrar: esperá o repetí la misma operación.',
  'cashier.refund_under_way':
    'La devolución está en curso. No la repitas ni vuelvas a cobrar: esperá a que termine.',
  'cashier.contradicted':
    'Mercado Pago informa algo que no coincide con este cobro. No vuelvas a cobrar; avisá al supervisor.',
  'cashier.created':
    'El cobro espera en la terminal. Si no aparece, presioná el botón de actualizar en ella.',
  'cashier.silent':
    'La terminal no responde desde hace {for}. Mirá si está encendida y con conexión; si no, anulá y cobrá en otra caja.',
  'cashier.at_terminal':
    'El cobro está en la terminal. Pedile al cliente que pague; para anular, pedilo desde la caja o hacelo en la terminal.',
  'cashier.cancel_requested':
    'Se pidió anular el cobro, pero la terminal todavía puede cobrarlo. No vuelvas a cobrar: esperá el resultado.',
  'cashier.action_required':
    'La terminal no confirmó el resultado. Mirá su pantalla antes de volver a cobrar.',
  'cashier.processed': 'Cobro aprobado.',
  'cashier.partially_refunded': 'Cobro aprobado, con una devolución parcial.',
  'cashier.refunded': 'El cobro fue devuelto por completo.',
  'cashier.canceled': 'El cobro fue anulado. No se cobró nada.',
  'cashier.expired': 'El cobro venció sin pago. No se cobró nada.',
  'cashier.not_created': 'El cobro no llegó a crearse. No se cobró nada; podés cobrar de nuevo.',
  'cashier.paid_after_close':
    'Este cobro se cerró, pero después llegó el pago. No vuelvas a cobrar; avisá al supervisor.',
  'cashier.paid_late':
    'Este cobro figuraba como no pagado, pero después llegó el pago. No vuelvas a cobrar; avisá al supervisor.',
  'cashier.paid_twice':
    'Mercado Pago muestra más de un pago de este cobro. No vuelvas a cobrar; avisá al supervisor.',
  'cashier.paid_less':
    'El cliente pagó menos que lo pedido: {paid} de {asked}. No vuelvas a cobrar todo; avisá al supervisor.',
  'cashier.settled_unpaid':
    'Este cobro está marcado como pagado, y Mercado Pago muestra que no se pagó. Avisá al supervisor antes de entregar nada.',
  'cashier.settled_paid':
    'Un supervisor marcó este cobro como pagado. Entregá la mercadería y el comprobante.',
  'cashier.settled_not_paid':
    'Un supervisor marcó este cobro como no pagado. Podés cobrarlo de nuevo.',
  'cashier.declined': 'Pago rechazado. Pedí otro medio de pago.',
  'cashier.declined_funds':
    'Pago rechazado: fondos o límite insuficientes. Pedí otro medio de pago.',
  'cashier.declined_card':
    'Pago rechazado: la tarjeta no se puede usar o sus datos no coinciden. Pedí otra tarjeta.',
  'cashier.declined_call_issuer':
    'Pago rechazado: el cliente debe autorizarlo con su banco. Luego podés cobrar de nuevo.',
  'cashier.declined_attempts': 'Pago rechazado: demasiados intentos. Pedí otra tarjeta.',
  'cashier.paid_before': 'Esta venta ya está cobrada. No cobres de nuevo: entregá el comprobante.',

  'busy.own': 'La terminal tiene otro cobro. Terminalo o anulalo y cobrá de nuevo.',
  'busy.other_application':
    'La terminal está ocupada por un cobro de otro programa. Terminalo o anulalo en ese programa o en la terminal, y cobrá de nuevo.',
  'busy.print':
    'La terminal está ocupada: tiene una impresión pendiente o un cobro de otro programa. Esperá a que termine o mirá la pantalla, y cobrá de nuevo.',
  'busy.unknown':
    'La terminal está ocupada con una operación que no es de esta caja. Mirá la pantalla, terminala ahí y cobrá de nuevo.',
} as const
