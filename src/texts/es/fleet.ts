/**
 * Why a box, a connection, a flow or a destination is in trouble. `{for}` is how long the state has lasted, such as "3 minutes";
 * `{nextTryIn}` is the time until the next try. Times of day are avoided, since shops have different time zones.
 */
export const fleet = {
  'fleet.terminal_standalone':
    'La terminal[ {terminalId}] está en modo independiente[, desde hace {for}][ (cobros rechazados: {count})]: pasala a modo PDV.',
  'fleet.terminal_missing':
    'La caja no tiene ninguna terminal vinculada[, desde hace {for}][ (cobros rechazados: {count})]: vinculá una en la app de Mercado Pago.',
  'fleet.terminal_silent':
    'La terminal[ {terminalId}] no responde[ desde hace {for}]: probá en otra caja y revisá que esté encendida y con conexión.',
  'fleet.terminal_busy':
    'La terminal[ {terminalId}] está ocupada por otro cobro[ ({reference})][ desde hace {for}]: terminalo, o anulalo desde la caja o en la terminal.',
  'fleet.terminal_waits':
    'La terminal[ {terminalId}] no confirmó el resultado del cobro {reference}[, desde hace {for}]: mirá su pantalla.',
  'fleet.refused':
    'Mercado Pago rechaza los cobros de la caja[, {count} seguidos][, desde hace {for}]: mirá el motivo en el registro.',
  'fleet.provider_failing':
    'Mercado Pago falla[ desde hace {for}]. El problema no es de la tienda: cobrá con otro medio y mirá la página de estado de Mercado Pago.',
  'fleet.throttled':
    'Mercado Pago limita las llamadas[ desde hace {for}]: el servicio reintenta más despacio.',
  'fleet.service_failing':
    'El servicio no pudo procesar el último cobro[, hace {for}]: mirá su estado y su registro.',
  'fleet.connection_lost':
    'La conexión con Mercado Pago se perdió[ desde hace {for}]: volvé a conectar la cuenta.',
  'fleet.connection_expiring':
    'La conexión con Mercado Pago está por vencer y no se pudo renovar[ desde hace {for}]: volvé a conectar la cuenta antes de que se pierda.',
  'fleet.not_connected': 'El cliente no tiene una cuenta de Mercado Pago conectada: conectala.',
  'fleet.account_unpinned':
    'La cuenta del cliente fue liberada. La próxima conexión fija la nueva: conectá la correcta.',
  'fleet.webhooks_missing':
    'No llegan webhooks de Mercado Pago[ desde hace {for}]. El servicio consulta los cobros igual. Revisá la dirección y la clave de los webhooks.',
  'fleet.payments_unreadable':
    'Hay pagos de Mercado Pago que no se pueden leer ({count})[, desde hace {for}]. Miralos en el panel de Mercado Pago. Los cierres de esos días quedan sin verificar.',
  'fleet.endpoint_stopped':
    'Endpoints de eventos detenidos: {count}[, desde hace {for}]. Los eventos esperan 30 días. Arreglá el receptor y reanudá el endpoint.',
  'fleet.endpoint_failing':
    'Endpoints que no aceptan un evento: {count}[, desde hace {for}]. Mirá la última respuesta en el panel, en Eventos.',
  'fleet.in_doubt':
    'No se sabe si el cobro {reference} se hizo[, desde hace {for}]: mirá la terminal o el panel de Mercado Pago y registrá el resultado.',
  'fleet.contradicted':
    'El cobro {reference} figura distinto en Mercado Pago: comparalo con el registro.',
  'fleet.paid_late':
    'El cobro {reference} se cerró sin pago y después se pagó[; en su lugar se cobró {instead}]: marcalo como pagado o devolvelo.',
  'fleet.paid_less':
    'El cliente pagó el cobro {reference} en parte: cobrá el resto y marcalo como pagado, o devolvelo.',
  'fleet.settled_unpaid':
    'El cobro {reference} está marcado como pagado, y Mercado Pago muestra que no se pagó: cobralo de nuevo y marcalo como no pagado.',
  'fleet.refund_in_doubt':
    'No se sabe si se hizo una devolución del cobro {reference}: mirá el panel de Mercado Pago y registrá el resultado.',
  'fleet.quiet': 'El último cobro fue hace {for}. El próximo muestra si la caja puede cobrar.',
  'fleet.never_charged':
    'La caja todavía no hizo ningún cobro. El primero muestra si puede cobrar.',
  'fleet.flow_paused': 'El flujo está en pausa[ desde hace {for}]: reanudalo cuando corresponda.',
  'fleet.flow_limited': 'El flujo usó su límite de corridas: quitá el límite para que siga.',
  'fleet.question_open':
    'El flujo pregunta algo[ desde hace {for}] y lo que depende de eso espera: abrí el flujo y respondé.',
  'fleet.source_failing':
    'El origen del flujo no se puede leer[ desde hace {for}]: mirá el error y el origen.',
  'fleet.not_polled':
    'El flujo está atrasado: no se leyó a su hora[, desde hace {for}]. Mirá el registro del servicio.',
  'fleet.never_polled': 'El flujo todavía no se leyó.',
  'fleet.access_lost':
    'El emisor del acceso ya no lo renueva[ ({code})][ desde hace {for}]. Autorizá la aplicación otra vez, poné el nuevo refresh token[ en {place}] y releé los archivos de flujos.',
  'fleet.sending_stopped':
    'Un operador detuvo el envío al destino[ hace {for}]. Envíos pendientes: {pending}. Reanudá el envío cuando corresponda.',
  'fleet.destination_failing':
    'Destino con fallas: envío suspendido[ desde hace {for}]. Envíos pendientes: {pending}.[ Próximo intento en {nextTryIn}.] Revisá que responda.',
  'fleet.destination_asked_to_wait':
    'El destino pidió esperar[ desde hace {for}]. Envíos pendientes: {pending}.',
  'fleet.deliveries_late':
    'Envíos atrasados al destino: {pending}, el más viejo desde hace {for}. Revisá que responda.',
  'fleet.deliveries_failed':
    'Envíos al destino que fallaron definitivamente: {count}. Mirá los errores y reintentalos.',
} as const
