/** Why there is no access token. */
export const access = {
  TOKEN_FAILED: 'no hay token de acceso: {said}',
  TOKEN_NOT_IN_ANSWER: 'la respuesta no trae ninguno',
  TOKEN_REFUSED:
    'no hay token de acceso: {said}; mirá tokenUrl, clientId, clientSecret y clientAuth',
  TOKEN_SEALED:
    'no hay token de acceso: está cifrado con la clave {key}, que este proceso no tiene (ENCRYPTION_KEYS)',
  TOKEN_RENEWED_ELSEWHERE:
    'todavía no hay token de acceso: otro proceso lo renueva, o se cortó mientras lo hacía',
  ACCESS_LOST_KEY:
    'no hay token de acceso: se perdió la clave de cifrado del refresh token más nuevo. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos de flujos. Hasta entonces no se envía ni se lee nada con él, y no se pierde nada.',
  ACCESS_LOST_FIRST:
    'no hay token de acceso: quien lo emite rechazó el refresh token ({code}); el primero está mal escrito, es demasiado viejo o ya se usó en otra parte. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos de flujos. Hasta entonces no se envía ni se lee nada con él, y no se pierde nada.',
  ACCESS_LOST_LATER:
    'no hay token de acceso: quien lo emite rechazó el refresh token ({code}); se revocó, lo usó otro o volvió con una copia de seguridad. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos de flujos. Hasta entonces no se envía ni se lee nada con él, y no se pierde nada.',
  ACCESS_LOST_CUT:
    'no hay token de acceso: quien lo emite rechazó el refresh token ({code}). La renovación del {at} se cortó antes de guardar su respuesta, y el token que trajo se perdió. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos de flujos. Hasta entonces no se envía ni se lee nada con él, y no se pierde nada.',
} as const
