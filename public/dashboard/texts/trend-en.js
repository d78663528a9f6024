/** Sales over time, in English. */
export const trendTexts = {
  'trend.title': 'Sales over time',
  'trend.link': 'By day, week, store or method',
  'trend.back': 'Back to today',
  'trend.by': 'Group',
  'trend.by.day': 'Day',
  'trend.by.week': 'Week',
  'trend.by.store': 'Store',
  'trend.by.method': 'Method of payment',
  'trend.weekOf': 'Week of {day}',
  'trend.paid': 'Paid',
  'trend.declined': 'Declined',
  'trend.total': 'Total',
  'trend.showAll': 'Show all {count} rows',
  'method.unknown': 'not known',
}
