/* Private to config: how deep trees may be. Every walk over a tree may recurse, because no tree is deeper. */
#ifndef FM_CONFIG_TREE_H
#define FM_CONFIG_TREE_H

#define FM_MAX_DEPTH 64

#endif
