/**
 * A part of the provider's catalogue. The provider refuses names that are not in its list, accents included, and
 * answers with valid ones. The whole list is not known, so only a known name with other letters is refused here.
 */
const states: Record<string, string[]> = {
  'Buenos Aires': [
    'La Plata',
    'Mar del Plata',
    'Bahía Blanca',
    'Morón',
    'Lanús',
    'Junín',
    'Tandil',
  ],
  'Capital Federal': ['Balvanera', 'Belgrano', 'Constitución', 'Núñez', 'Palermo', 'Recoleta'],
  Catamarca: ['San Fernando del Valle de Catamarca'],
  Córdoba: ['Córdoba', 'Río Cuarto', 'Villa María', 'Villa Carlos Paz'],
  Corrientes: ['Corrientes', 'Goya'],
  'Entre Ríos': ['Paraná', 'Concordia', 'Gualeguaychú'],
  Jujuy: ['San Salvador de Jujuy'],
  Mendoza: ['Mendoza', 'Godoy Cruz', 'Maipú', 'San Rafael'],
  Misiones: ['Posadas', 'Oberá', 'Puerto Iguazú'],
  Neuquén: ['Neuquén', 'San Martín de los Andes'],
  'Río Negro': ['Viedma', 'San Carlos de Bariloche'],
  Salta: ['Salta'],
  'Santa Fe': ['Rosario', 'Santa Fe', 'Rafaela'],
  Tucumán: ['San Miguel de Tucumán', 'Yerba Buena'],
}

/** The error for a state and city, or undefined. */
export function cityProblem(state: string, city: string) {
  const known = Object.keys(states)
  const realState = known.find((name) => plain(name) === plain(state))
  if (realState === undefined) return undefined
  if (realState !== state) {
    return { code: 'INVALID_STATE_NAME', message: `location.state_name must be ${realState}` }
  }
  const cities = states[realState] ?? []
  const realCity = cities.find((name) => plain(name) === plain(city))
  if (realCity === undefined || realCity === city) return undefined
  const message = `location.city_name is not valid. Valid names: ${cities.join(', ')}`
  return { code: 'INVALID_CITY_NAME', message }
}

function plain(name: string): string {
  return name.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase().trim()
}
