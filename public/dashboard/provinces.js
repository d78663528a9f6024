/**
 * The provinces by the names that the provider knows them by, each with about where its capital lies: the provider asks for
 * coordinates of every store, and who has none at hand is not far off with these.
 */
export const provinces = [
  ['Buenos Aires', -34.9205, -57.9536],
  ['Capital Federal', -34.6037, -58.3816],
  ['Catamarca', -28.4696, -65.7795],
  ['Chaco', -27.4514, -58.9867],
  ['Chubut', -43.3002, -65.1023],
  ['Corrientes', -27.4692, -58.8306],
  ['Córdoba', -31.4201, -64.1888],
  ['Entre Ríos', -31.7413, -60.5115],
  ['Formosa', -26.1849, -58.1731],
  ['Jujuy', -24.1858, -65.2995],
  ['La Pampa', -36.6167, -64.2833],
  ['La Rioja', -29.4135, -66.8565],
  ['Mendoza', -32.8895, -68.8458],
  ['Misiones', -27.3621, -55.9009],
  ['Neuquén', -38.9516, -68.0591],
  ['Río Negro', -40.8135, -62.9967],
  ['Salta', -24.7821, -65.4232],
  ['San Juan', -31.5375, -68.5364],
  ['San Luis', -33.295, -66.3356],
  ['Santa Cruz', -51.623, -69.2168],
  ['Santa Fe', -31.6107, -60.6973],
  ['Santiago del Estero', -27.7834, -64.2642],
  ['Tierra del Fuego', -54.8019, -68.303],
  ['Tucumán', -26.8083, -65.2176],
]
