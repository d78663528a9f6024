/** Ventas en el tiempo, en español. */
export const trendTexts = {
  'trend.title': 'Ventas en el tiempo',
  'trend.link': 'Por día, semana, sucursal o medio',
  'trend.back': 'Volver a hoy',
  'trend.by': 'Agrupar',
  'trend.by.day': 'Día',
  'trend.by.week': 'Semana',
  'trend.by.store': 'Sucursal',
  'trend.by.method': 'Medio de pago',
  'trend.weekOf': 'Semana del {day}',
  'trend.paid': 'Pagados',
  'trend.declined': 'Rechazados',
  'trend.total': 'Total',
  'trend.showAll': 'Mostrar las {count} filas',
  'method.unknown': 'sin dato',
}
