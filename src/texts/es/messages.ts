/** What operators are sent. */
export const messages = {
  'message.box': '{client}[, caja {box}]',
  'message.since': 'Desde: {time}',

  // Failed deliveries of a flow.
  'message.failures.test': 'Prueba de alertas del flujo {flow}',
  'message.failures.test_fact': 'Este canal recibe las alertas del flujo. No hay nada que hacer.',
  'message.failures.new':
    '{flow}: {count} {count:entrega falló|entregas fallaron} en {destination}',
  'message.failures.still':
    '{flow}: {count:sigue|siguen} {count} {count:entrega fallida|entregas fallidas} en {destination}',
  'message.failures.recovered': '{flow}: {destination} se recuperó',
  'message.failures.counts': 'Fallas nuevas: {failed}; sin entregar ahora: {open}',
  'message.failures.none_left': 'Todas se entregaron después: no queda ninguna fallida.',
  'message.failures.recovered_fact': 'No quedan entregas fallidas. La primera falla fue el {time}.',
  'message.failures.retry':
    'Corregí la causa y volvé a enviar con «Volver a enviar todo lo fallido» del panel (/admin) o con la API de control:',

  // Trouble of boxes, connections, flows and destinations.
  'message.fleet.test': 'Prueba de alertas de los cobros',
  'message.fleet.test_fact':
    'Este canal recibe las alertas de cajas, conexiones, Mercado Pago y flujos. No hay nada que hacer.',
  'message.fleet.recovered': 'volvió a la normalidad',
  'message.fleet.was': 'Fue: {text}',
  'message.fleet.more': 'y {count} más',
  'message.fleet.dependents': 'Por la misma causa: {count} más (cajas o flujos)',
  'message.fleet.look': 'Mirá el estado de todo en el panel (/dashboard) o con la API:',
  'message.fleet.look_at_flow':
    'Mirá el flujo y sus errores en el panel (/admin) o con la API de control:',

  // The database.
  'message.database.down': 'La base de datos no guarda nada: no se puede cobrar',
  'message.database.help':
    'Revisá que la base responda, que no sea una réplica y que tenga espacio en disco.',
  'message.database.recovered': 'La base de datos guarda otra vez: se puede cobrar',

  // Payments without a sale.
  'message.unclaimed.found': '{count} {count:pago|pagos} sin venta',
  'message.unclaimed.settled': '{count} {count:pago sin venta resuelto|pagos sin venta resueltos}',
  'message.unclaimed.line': 'pago {payment}, $ {amount}, {time}[, otro pago del cobro {reference}]',
  'message.unclaimed.state.open': 'sin resolver',
  'message.unclaimed.state.adopted': 'registrado como venta',
  'message.unclaimed.state.refunded': 'devuelto',
  'message.unclaimed.state.dismissed': 'descartado',
  'message.unclaimed.help':
    'Mercado Pago tiene estos pagos de una caja y no hay ninguna venta que les corresponda. Por ejemplo: el importe se tecleó en la terminal o el cliente pagó dos veces.',
  'message.unclaimed.look':
    'Registralo como venta, devolvelo o descartalo en el panel (/dashboard, Cierres) o con la API:',

  // Charge-backs.
  'message.chargebacks_opened': '{count} {count:contracargo nuevo|contracargos nuevos}',
  'message.chargebacks_due': '{count} {count:contracargo espera|contracargos esperan} documentos',
  'message.chargebacks_decided': '{count} {count:contracargo resuelto|contracargos resueltos}',
  'message.chargebacks_opened.help':
    'Un comprador desconoció estos pagos en su banco. Mercado Pago retiene el dinero hasta decidir. La venta sigue siendo válida: no la devuelvas.',
  'message.chargebacks_due.help':
    'Subí los documentos de la venta en el panel de Mercado Pago antes del vencimiento. Después no los acepta.',
  'message.chargebacks_decided.help': 'Mercado Pago decidió estos casos.',
  'message.chargeback.line': 'pago {payment}[, caso {case}][, $ {amount}]',
  'message.chargeback.due': 'documentos hasta {time}',
  'message.chargeback.state.open': 'abierto',
  'message.chargeback.state.won': 'ganado: el comercio conserva el dinero',
  'message.chargeback.state.lost': 'perdido: el comprador tiene el dinero',
  'message.chargeback.state.unknown': 'sin datos del caso',
  'message.chargeback.look': 'Mirá los casos en el panel (/dashboard, Cierres) o con la API:',

  // Endpoints that events are sent to.
  'message.endpoints_stopped':
    '{count} {count:endpoint detenido|endpoints detenidos}: ya no se le mandan eventos',
  'message.endpoint.line': 'dirección {host}: {reason}',
  'message.endpoint.reason.gone': 'respondió 410',
  'message.endpoint.reason.exhausted': 'un evento no se pudo entregar durante 75 horas',
  'message.endpoint.reason.secret_lost': 'su secreto se perdió con una clave de cifrado',
  'message.endpoint.help':
    'Los eventos esperan 30 días. Arreglá el receptor y reanudá el endpoint: recibe todo desde el primer evento que le falta.',
  'message.endpoint.look': 'Reanudalo en el panel (/dashboard, Eventos) o con la API:',
} as const
