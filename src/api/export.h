/* What the library shows; tools/symbols.txt lists it. */
#ifndef TRIDENT_API_EXPORT_H
#define TRIDENT_API_EXPORT_H

#define EXPORT __attribute__((visibility("default")))

#endif
